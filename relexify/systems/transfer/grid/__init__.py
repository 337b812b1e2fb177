"""Search a grid of neighbours and temperatures."""
