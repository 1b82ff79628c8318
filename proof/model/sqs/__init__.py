"""The model of SQS; imports botocore and the ground of the model."""
