"""Benchmarks: what the product costs beside its rivals; imports all but `infra` and tests."""
