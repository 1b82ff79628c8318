"""The operator's command line of Fanfold, for a deployed stack and for the local engine."""
