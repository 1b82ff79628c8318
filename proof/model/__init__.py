"""DynamoDB and SQS in memory, exact, with time handed in; imports only botocore."""
