"""Deploy time: the only package that imports the AWS CDK; it reads the modules of `fanfold/`."""
