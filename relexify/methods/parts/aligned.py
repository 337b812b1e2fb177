"""Mix a target token from the source tokens that it is aligned with in parallel text (RAMEN, Eq. 2)."""

from __future__ import annotations

import numpy as np
import scipy

from relexify.errors import EvidenceError, InputError
from relexify.mixture import Mixture, Origin, mixture_of_weights
from relexify.tokens import AnyVocabulary, vocabulary_of

__all__ = ["aligned_tokens"]


def aligned_tokens(
    source: AnyVocabulary,
    target: AnyVocabulary,
    counts: scipy.sparse.csr_array,
    *,
    smoothing: float = 0.0,
    min_count: float = 1.0,
) -> Mixture:
    """Mix every target token from the source tokens it is aligned with, weighted by p(source | target).

    Args:
        source: The source tokenizer or its vocabulary.
        target: The target tokenizer or its vocabulary.
        counts: How often two tokens are aligned [target × source].
        smoothing: A number that is added to every count above 0.
        min_count: Pairs with a lower count are ignored.

    Raises:
        InputError: An option is out of range.
        EvidenceError: No pair has a sufficient count.
    """
    if not (0 <= smoothing < float("inf") and 0 <= min_count < float("inf")):
        raise InputError(f"smoothing = {smoothing} and min_count = {min_count} are not possible: give 0 or more")
    source, target = vocabulary_of(source), vocabulary_of(target)
    special_rows, special_columns = (
        np.array([form.is_special for form in vocabulary.forms]) for vocabulary in (target, source)
    )
    seen = scipy.sparse.csr_array(counts, dtype=np.float64).tocoo()
    # Special tokens are copied by role. If a text happens to contain the name of one, this is no evidence.
    kept = (seen.data >= min_count) & (seen.data > 0)
    kept &= ~special_rows[seen.row] & ~special_columns[seen.col]
    if not kept.any():
        raise EvidenceError(
            f"no two tokens were aligned {min_count:g} times or more: give more parallel text, or a smaller min_count"
        )
    pairs = scipy.sparse.csr_array((seen.data[kept] + smoothing, (seen.row[kept], seen.col[kept])), shape=seen.shape)
    # p(e_j | ℓ_i) = c(ℓ_i, e_j) / Σ_k c(ℓ_i, e_k) (Eq. 2); rows without a pair stay empty.
    totals = np.asarray(pairs.sum(axis=1)).ravel()
    scale = np.divide(1.0, totals, out=np.zeros_like(totals), where=totals > 0)
    return mixture_of_weights(
        scipy.sparse.diags_array(scale) @ pairs, source, target, method="aligned tokens", origin=Origin.MIXED
    )
