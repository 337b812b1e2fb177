"""The default: half WECHSEL, half old pieces, neutral tokens copied.

An order of evidence: special tokens by role > neutral tokens > ½ vectors + ½ old pieces > random. Where the vectors
know nothing of a token its old pieces stand alone, and the other way round.
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
    vectors: Mixture,
    *,
    share: float = 0.5,
    overrides: Mapping[str, str] | None = None,
) -> Mixture:
    """Compose the evidence of vectors with what the two tokenizers tell.

    Two tokenizers with the same tokens are one language: there every token is copied.

    Args:
        source_tokenizer: The model's tokenizer.
        target_tokenizer: The new one.
        vectors: A mixture from word vectors, as `wechsel` or `vector_neighbours` make it.
        share: Weight of the vectors against the old pieces.
        overrides: Source token by target token, as `special` takes them.
    """
    source, target = vocabulary_of(source_tokenizer), vocabulary_of(target_tokenizer)
    steering = special(source, target, overrides=overrides)
    if set(target.forms) == set(source.forms):
        return first_of(steering, shared(source, target), method="blend")
    evidence = blend((share, vectors), (1 - share, pieces(source_tokenizer, target_tokenizer)))
    return first_of(steering, neutral(source, target), evidence, method="blend")
