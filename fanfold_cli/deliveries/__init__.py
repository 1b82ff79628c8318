"""Deliveries of posts: many fan-outs at once, pauses of lanes, and waits for progress."""
