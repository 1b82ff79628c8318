"""DynamoDB's expressions: parsed, checked and evaluated."""
