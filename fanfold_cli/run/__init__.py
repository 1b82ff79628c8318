"""A run on a deployed stack: who asked for what, what arrived, and the verdict on it."""
