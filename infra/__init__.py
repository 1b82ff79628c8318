"""Deploy time: the one package that knows the AWS CDK."""
