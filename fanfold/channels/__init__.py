"""Channels: one shared timeline for each of the few publishers with the most followers."""
