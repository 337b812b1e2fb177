"""Defaults of a transfer, and of the advice on one, for the command line too.

Help must not import the options, and numpy with them; reports print the command of an advice, and must not import it.
"""

from __future__ import annotations

__all__ = [
    "ADVICE_BATCH",
    "ADVICE_BYTES",
    "ADVICE_LENGTH",
    "ADVICE_STEPS",
    "DEFAULT_ADDED",
    "DEFAULT_METHOD",
    "DEFAULT_VOCABULARY",
]

DEFAULT_METHOD = "blend"
"""The method that combines all types of evidence."""
DEFAULT_VOCABULARY = 32_000
DEFAULT_ADDED = 10_000

ADVICE_STEPS = 20
ADVICE_BATCH = 4
ADVICE_LENGTH = 128
ADVICE_BYTES = 8_000_000
