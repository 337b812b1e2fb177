"""Runs that a recipe file describes, and the keys of its tables."""
