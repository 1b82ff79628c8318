"""The model of DynamoDB; imports botocore and the ground of the model."""
