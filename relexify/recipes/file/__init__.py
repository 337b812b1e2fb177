"""Read, validate and write recipe files."""
