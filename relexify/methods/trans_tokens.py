"""Trans-tokenization: a target token is mixed from those it is aligned with in parallel text (Remy et al., 2024).

Each row comes from the first of these that applies: special tokens by role > digits, punctuation and bytes, copied >
normalised counts of aligned tokens > tokens in both vocabularies, copied.
"""

from __future__ import annotations

from collections.abc import Mapping

import scipy

from relexify.methods.parts.aligned import aligned_tokens
from relexify.methods.parts.copying import neutral, shared, special
from relexify.methods.registry import METHODS, Method
from relexify.mixture import Mixture, first_of
from relexify.tokens import AnyVocabulary, vocabulary_of

__all__ = ["trans_tokens"]


def trans_tokens(
    source_tokenizer: AnyVocabulary,
    target_tokenizer: AnyVocabulary,
    counts: scipy.sparse.csr_array,
    *,
    smoothing: float = 0.0,
    min_count: float = 1.0,
    overrides: Mapping[str, str] | None = None,
) -> Mixture:
    """Mix tokens by the counts of their alignments, and copy tokens that need no translation.

    Args:
        source_tokenizer: The model's tokenizer.
        target_tokenizer: The target language's tokenizer.
        counts: How often two tokens are aligned [target × source], as returned by `aligned_counts`.
        smoothing: A number that is added to the count of every pair with a count above 0.
        min_count: Pairs with a lower count are ignored.
        overrides: Source token by target token, as in `special`.
    """
    source, target = vocabulary_of(source_tokenizer), vocabulary_of(target_tokenizer)
    return first_of(
        special(source, target, overrides=overrides),
        neutral(source, target),
        aligned_tokens(source, target, counts, smoothing=smoothing, min_count=min_count),
        shared(source, target),
        method="trans-tokens",
    )


METHODS.add(
    "trans-tokens",
    Method(
        becomes="the source tokens it is aligned with, by count",
        evidence="parallel text",
        paper="Remy et al. 2024",
        build=lambda inputs: trans_tokens(
            inputs.source,
            inputs.target,
            inputs.aligned_token_counts,
            smoothing=inputs.evidence.aligning.smoothing,
            min_count=inputs.evidence.aligning.min_count,
            overrides=inputs.overrides,
        ),
        needs=("bitext",),
        uses=("overrides",),
        revision=2,
    ),
)
