"""Word vectors and their alignment, without a model."""
