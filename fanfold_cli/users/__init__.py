"""Users of a stack: signed in, and acted for."""
