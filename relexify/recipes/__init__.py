"""Recipes: a run as a TOML file."""
