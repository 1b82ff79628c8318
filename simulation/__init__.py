"""A model of the AWS services that Fanfold runs on: exact, pure, and with time handed in."""
