"""A module for each sub-command of `fanfold`; imports the rest of `fanfold_cli`."""
