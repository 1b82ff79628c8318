"""The operator's audit of a running stage: whether everybody has what they are owed."""
