"""Judges the history that a stage has logged."""
