"""Storage: atomic files, fingerprints, the cache, work folders and checkpoints."""
