"""Dependency parsing with a biaffine parser."""
