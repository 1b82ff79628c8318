"""The Lambdas, one module each; what starts with `_` they share. Imports `fanfold`."""
