"""Fast vocabulary transfer: a new token is the mean of its old pieces (Gee et al., EMNLP 2022)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from relexify.methods.copying import special
from relexify.mixture import Mixture, Origin, first_of, mixture_of_rows
from relexify.tokens import source_pieces, vocabulary_of

__all__ = ["fvt", "pieces"]


def pieces(source_tokenizer: Any, target_tokenizer: Any) -> Mixture:
    """The mean of the old pieces of every token, and nothing for special tokens."""
    source, target = vocabulary_of(source_tokenizer), vocabulary_of(target_tokenizer)
    rows = source_pieces(source_tokenizer, target)
    return mixture_of_rows(rows, source, target, method="pieces", origin=Origin.PIECES)


def fvt(source_tokenizer: Any, target_tokenizer: Any, *, overrides: Mapping[str, str] | None = None) -> Mixture:
    """Copy shared tokens, take the mean of the old pieces for the others.

    Args:
        source_tokenizer: The model's tokenizer.
        target_tokenizer: The new one.
        overrides: Source token by target token, as `special` takes them.
    """
    steering = special(source_tokenizer, target_tokenizer, overrides=overrides)
    return first_of(steering, pieces(source_tokenizer, target_tokenizer), method="fvt")
