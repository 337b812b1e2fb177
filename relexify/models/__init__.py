"""Models of our own around those of transformers."""
