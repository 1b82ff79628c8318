"""Follows of a stack: loaded from a graph, examined by the doctor, and put back."""
