"""`fanfold audit`: the command and its report."""
