"""What is seen of a run while it lasts, call by call and minute by minute."""
