"""Programs for those who work on Fanfold."""
