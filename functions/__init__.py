"""The Lambda functions, a module each; they share the modules with `_`. Imports `fanfold`."""
