"""The state of a whole stage: what it owes now, and whether everything is well."""
