"""What a stage did, in lines that outsiders can judge."""
