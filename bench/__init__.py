"""Benchmarks: what the product costs, beside what others do for the same work."""
