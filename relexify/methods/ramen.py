"""RAMEN: translation probabilities of subwords, from parallel text or from aligned vectors (Tran, 2020).

E_target[i] = Σ_j α_ij E_source[j] (Eq. 1), with α_ij = p(e_j | ℓ_i) of aligned tokens (Eq. 2), or
A = sparsemax(U_target U_sourceᵀ) of subword vectors (Eq. 3). Rows without evidence are drawn from N(0, 1/d²).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.sparse import csr_array, diags_array

from relexify.errors import EvidenceError, InputError
from relexify.evidence.vectors import SubwordVectors
from relexify.methods.baselines import random
from relexify.methods.copying import special
from relexify.methods.wechsel import check_subwords
from relexify.mixture import Fallback, Mixture, Origin, first_of, mixture_of_weights, sparsemax_products
from relexify.tokens import vocabulary_of

__all__ = ["aligned_tokens", "ramen", "ramen_random", "ramen_vectors"]


def ramen(
    source_tokenizer: Any,
    target_tokenizer: Any,
    counts: csr_array,
    *,
    smoothing: float = 0.0,
    min_count: float = 1.0,
    overrides: Mapping[str, str] | None = None,
) -> Mixture:
    """RAMEN from parallel text: special tokens copied, all others by translation probability (Eq. 2).

    Args:
        source_tokenizer: The model's tokenizer.
        target_tokenizer: The new one.
        counts: How often two tokens were aligned [target × source], as `aligned_counts` gives them.
        smoothing: Added to the count of every pair that was seen.
        min_count: Pairs seen less often are left out.
        overrides: Source token by target token, as `special` takes them.
    """
    source, target = vocabulary_of(source_tokenizer), vocabulary_of(target_tokenizer)
    rows = aligned_tokens(source, target, counts, smoothing=smoothing, min_count=min_count)
    return _finished(first_of(special(source, target, overrides=overrides), rows), "ramen")


def ramen_vectors(
    source: SubwordVectors, target: SubwordVectors, *, overrides: Mapping[str, str] | None = None, device: str = "cpu"
) -> Mixture:
    """RAMEN from text of either language: sparsemax over the whole source vocabulary (Eq. 3).

    Args:
        source: Vectors of the old tokens, averages of their words' (Eq. 4); tokens without a vector take no part.
        target: The same of the new tokens, in one space with them.
        overrides: Source token by target token, as `special` takes them.
        device: Where to multiply: `"cpu"` or a torch device.

    Raises:
        InputError: The two sides have different widths.
        EvidenceError: One side has no vector at all.
    """
    check_subwords(source, target)
    rows, columns = np.flatnonzero(target.covered), np.flatnonzero(source.covered)
    found = sparsemax_products(target.matrix[rows], source.matrix[columns], device=device).tocoo()
    shape = (len(target.vocabulary), len(source.vocabulary))
    weights = csr_array((found.data, (rows[found.row], columns[found.col])), shape=shape)
    mixed = mixture_of_weights(weights, source.vocabulary, target.vocabulary, method="ramen", origin=Origin.MIXED)
    steering = special(source.vocabulary, target.vocabulary, overrides=overrides)
    return _finished(first_of(steering, mixed), "ramen-vectors")


def ramen_random(source_tokenizer: Any, target_tokenizer: Any) -> Mixture:
    """The ablation of Table 3: every row, special tokens too, is drawn from N(0, 1/d²) when it is grafted."""
    return _finished(random(source_tokenizer, target_tokenizer), "ramen-random")


def aligned_tokens(
    source: Any, target: Any, counts: csr_array, *, smoothing: float = 0.0, min_count: float = 1.0
) -> Mixture:
    """Mix every target token from the source tokens it was aligned with, by p(source | target).

    Args:
        source: The old tokenizer or its vocabulary.
        target: The new one.
        counts: [target × source].
        smoothing: Added to the count of every pair that was seen.
        min_count: Pairs seen less often are left out.

    Raises:
        InputError: An option is impossible.
        EvidenceError: No pair was seen often enough.
    """
    if not (0 <= smoothing < float("inf") and 0 <= min_count < float("inf")):
        raise InputError(f"smoothing = {smoothing} and min_count = {min_count} are not possible: give 0 or more")
    old, new = vocabulary_of(source), vocabulary_of(target)
    special_tokens = [np.array([form.is_special for form in vocabulary.forms]) for vocabulary in (new, old)]
    seen = csr_array(counts, dtype=np.float64).tocoo()
    # Special tokens have their own rows; a text that happens to spell one says nothing of it.
    kept = (seen.data >= min_count) & (seen.data > 0)
    kept &= ~special_tokens[0][seen.row] & ~special_tokens[1][seen.col]
    if not kept.any():
        raise EvidenceError(
            f"no two tokens were aligned {min_count:g} times or more: give more parallel text, or a smaller min_count"
        )
    pairs = csr_array((seen.data[kept] + smoothing, (seen.row[kept], seen.col[kept])), shape=seen.shape)
    totals = np.asarray(pairs.sum(axis=1)).ravel()
    scale = np.divide(1.0, totals, out=np.zeros_like(totals), where=totals > 0)
    return mixture_of_weights(diags_array(scale) @ pairs, old, new, method="aligned tokens", origin=Origin.MIXED)


def _finished(mixture: Mixture, method: str) -> Mixture:
    return replace(mixture, method=method, fallback=Fallback.NARROW)
