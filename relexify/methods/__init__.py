"""Initialisation methods: evidence in, a Mixture out. One paper, one file; each registers itself in `METHODS`."""
