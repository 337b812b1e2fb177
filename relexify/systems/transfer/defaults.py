"""Defaults of a transfer, for the command line too: its help must not import the options, and numpy with them."""

from __future__ import annotations

__all__ = ["DEFAULT_ADDED", "DEFAULT_VOCABULARY"]

DEFAULT_VOCABULARY = 32_000
DEFAULT_ADDED = 10_000
