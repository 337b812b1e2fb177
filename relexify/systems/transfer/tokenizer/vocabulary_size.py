"""How large a vocabulary a text is enough for."""

from __future__ import annotations

__all__ = ["LEAST_BYTES_PER_TOKEN", "fitting_vocabulary"]

LEAST_BYTES_PER_TOKEN = 100
"""Bytes of text per token of a vocabulary below which many tokens are rare: with 106, from 42 % (Chinese) to 73 %
(Uyghur) of them occur fewer than five times in the text, and with 212, from 8 to 31 %."""
_SMALLEST = 1_000
"""Tokens below which no vocabulary is advised: it would have little more than the bytes and the frequent letters."""


def fitting_vocabulary(size: int) -> int:
    """Return the largest vocabulary that a text is enough for, rounded down to two digits; 0 if it is for none.

    Args:
        size: Bytes of text.
    """
    tokens = size // LEAST_BYTES_PER_TOKEN
    if tokens < _SMALLEST:
        return 0
    unit = int(10 ** (len(str(tokens)) - 2))
    return tokens // unit * unit
