"""Dead letters: read and held, moved back to their queues, or dropped into a file."""
