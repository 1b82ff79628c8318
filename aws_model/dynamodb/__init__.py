"""The model of DynamoDB; imports botocore and the ground of `aws_model`."""
