"""Evaluate a model on tasks: classification, tagging, parsing, probing."""
