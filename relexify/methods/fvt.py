"""Fast vocabulary transfer: a new token is the mean of its old pieces (Gee et al., EMNLP 2022)."""

from __future__ import annotations

from typing import Any

from relexify.methods.copying import special
from relexify.mixture import Mixture, Origin, first_of, mixture_of_rows
from relexify.tokens import old_pieces, vocabulary_of

__all__ = ["fvt", "pieces"]


def pieces(source_tokenizer: Any, target_tokenizer: Any) -> Mixture:
    """The mean of the old pieces of every token, and nothing for special tokens."""
    source, target = vocabulary_of(source_tokenizer), vocabulary_of(target_tokenizer)
    rows = old_pieces(source_tokenizer, target)
    return mixture_of_rows(rows, source, target, method="pieces", origin=Origin.PIECES)


def fvt(source_tokenizer: Any, target_tokenizer: Any) -> Mixture:
    """Copy shared tokens, take the mean of the old pieces for the others."""
    return first_of(
        special(source_tokenizer, target_tokenizer), pieces(source_tokenizer, target_tokenizer), method="fvt"
    )
