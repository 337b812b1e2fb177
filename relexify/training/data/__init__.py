"""Tokenised text, packed once, and batches of it."""
