"""The operator's command line, on AWS or a local engine; imports `fanfold` and `functions`."""
