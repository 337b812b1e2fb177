"""Defaults of advice, for the command line too: its help must not import the options, and numpy with them."""

from __future__ import annotations

__all__ = ["DEFAULT_BATCH", "DEFAULT_BYTES", "DEFAULT_LENGTH", "DEFAULT_STEPS"]

DEFAULT_STEPS = 20
DEFAULT_BATCH = 4
DEFAULT_LENGTH = 128
DEFAULT_BYTES = 8_000_000
