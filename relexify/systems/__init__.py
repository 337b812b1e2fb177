"""One package per paper."""
