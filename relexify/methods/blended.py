"""The default: all kinds of evidence in equal parts, neutral tokens copied.

An order of evidence: special tokens by role > neutral tokens > vectors, dictionary and old pieces in equal parts >
random. What one kind knows nothing of is left to the others: without a dictionary it is half WECHSEL, half old pieces,
and a token of which the vectors know nothing is the mean of its old pieces.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from relexify.methods.copying import neutral, shared, special
from relexify.methods.fvt import pieces
from relexify.mixture import Mixture, blend, first_of
from relexify.tokens import vocabulary_of

__all__ = ["blended"]


def blended(
    source_tokenizer: Any,
    target_tokenizer: Any,
    *evidence: Mixture,
    overrides: Mapping[str, str] | None = None,
) -> Mixture:
    """Compose evidence from outside with what the two tokenizers tell.

    Two tokenizers with the same tokens are one language: there every token is copied.

    Args:
        source_tokenizer: The model's tokenizer.
        target_tokenizer: The new one.
        evidence: Mixtures from word vectors (`wechsel`, `vector_neighbours`), from a dictionary (`translations`), …
        overrides: Source token by target token, as `special` takes them.
    """
    source, target = vocabulary_of(source_tokenizer), vocabulary_of(target_tokenizer)
    steering = special(source, target, overrides=overrides)
    if set(target.forms) == set(source.forms):
        return first_of(steering, shared(source, target), method="blend")
    parts = blend(*((1.0, part) for part in (*evidence, pieces(source_tokenizer, target_tokenizer))))
    return first_of(steering, neutral(source, target), parts, method="blend")
