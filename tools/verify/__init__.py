"""`make verify`: every proof once, in stages that are not run again for the same files."""
