"""Estimates: capacity and price of a publish, a follow, a channel, and a month."""
