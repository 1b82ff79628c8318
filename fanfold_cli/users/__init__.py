"""Users of a stack: signed in, acted for, and made for a smoke test."""
