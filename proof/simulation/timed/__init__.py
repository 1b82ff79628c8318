"""Runs that are timed: the use cases on the capacity model, as benches and their tests use them."""
