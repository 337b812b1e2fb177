"""Build mixtures from rows or weights, and compose mixtures by priority or as weighted blends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

import numpy as np
import scipy

from relexify.errors import VocabularyError
from relexify.mixture.mixture import Fallback, Mixture, Origin, validate_same_tokens
from relexify.tokens import Vocabulary

__all__ = ["blend", "empty_mixture", "first_of", "mixture_of_rows", "mixture_of_weights"]


def empty_mixture(source: Vocabulary, target: Vocabulary, *, method: str, fallback: Fallback) -> Mixture:
    """Build a mixture without evidence: every row is filled by the fallback."""
    weights = scipy.sparse.csr_array((len(target), len(source)), dtype=np.float32)
    return mixture_of_weights(weights, source, target, method=method, origin=Origin.NONE, fallback=fallback)


def mixture_of_rows(
    rows: Sequence[Sequence[int]], source: Vocabulary, target: Vocabulary, *, method: str, origin: Origin | np.ndarray
) -> Mixture:
    """Build a mixture in which each target token is the mean of the listed source tokens.

    An empty list gives an empty row. A row of origin `PIECES` with a single source token gets the origin `COPIED`.
    """
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    indices = np.array([id for row in rows for id in row], dtype=np.int64)
    data = np.repeat(1.0 / np.maximum(lengths, 1), lengths)
    weights = scipy.sparse.csr_array((data, indices, indptr), shape=(len(target), len(source)))
    single = np.array([len(set(row)) == 1 for row in rows], dtype=bool)
    origins = np.where(single & (np.asarray(origin) == Origin.PIECES), Origin.COPIED, origin)
    return mixture_of_weights(weights, source, target, method=method, origin=origins)


def mixture_of_weights(
    weights: scipy.sparse.csr_array,
    source: Vocabulary,
    target: Vocabulary,
    *,
    method: str,
    origin: Origin | np.ndarray,
    fallback: Fallback = Fallback.SOURCE_ROWS,
) -> Mixture:
    """Build a mixture from weights [target × source]; rows without entries have the origin `NONE`."""
    weights = scipy.sparse.csr_array(weights, dtype=np.float32)
    weights.sum_duplicates()
    weights.eliminate_zeros()
    has_entries = np.diff(weights.indptr) > 0
    origins = np.where(has_entries, origin, Origin.NONE).astype(np.uint8)
    return Mixture(
        weights,
        origins,
        method,
        source.tokens,
        target.tokens,
        source.spelling,
        target.spelling,
        fallback=fallback,
    )


def first_of(*mixtures: Mixture, method: str | None = None) -> Mixture:
    """Take each row from the first mixture that has evidence for it; the fallback is that of the last mixture."""
    _validate_same_vocabularies(mixtures)
    name = method or " > ".join(mixture.method for mixture in mixtures)
    return replace(reduce(_fill_gaps, mixtures), method=name, fallback=mixtures[-1].fallback)


def blend(*parts: tuple[float, Mixture]) -> Mixture:
    """Return the weighted sum of mixtures.

    In each row, the weights are renormalised over the mixtures that have evidence for it. The fallback is that of the
    last mixture.
    """
    mixtures = [mixture for _, mixture in parts]
    _validate_same_vocabularies(mixtures)
    shares = np.array([share for share, _ in parts], dtype=np.float64)[:, None]  # [mixtures × 1]
    known = np.stack([mixture.known for mixture in mixtures])  # [mixtures × target tokens]
    totals = (shares * known).sum(axis=0)
    # [mixtures × target tokens]: each column sums to 1, or to 0 if no mixture has evidence for the token.
    scales = np.divide(shares * known, totals, out=np.zeros(known.shape), where=totals > 0)
    weights = sum(
        (scipy.sparse.diags_array(scale) @ mixture.weights for scale, mixture in zip(scales, mixtures, strict=True)),
        start=scipy.sparse.csr_array(mixtures[0].weights.shape, dtype=np.float64),
    )
    # A row for which only one mixture has evidence keeps its origin there; with several, its origin is MIXED.
    in_one_mixture = known.sum(axis=0) == 1
    first_origin = np.stack([mixture.origin for mixture in mixtures])[known.argmax(axis=0), np.arange(known.shape[1])]
    origin = np.full(known.shape[1], Origin.MIXED, dtype=np.uint8)
    origin[in_one_mixture] = first_origin[in_one_mixture]
    origin[~known.any(axis=0)] = Origin.NONE
    # If all mixtures use the same single source token, and at least one copies it, the blend is a copy too.
    weights = scipy.sparse.csr_array(weights)
    weights.eliminate_zeros()
    is_copy = np.stack([mixture.origin == Origin.COPIED for mixture in mixtures]).any(axis=0)
    origin = np.where(is_copy & (np.diff(weights.indptr) == 1), Origin.COPIED, origin)
    name = " + ".join(f"{share:g} {mixture.method}" for share, mixture in parts)
    return _rebuild(weights, origin, name, mixtures[-1])


def _fill_gaps(above: Mixture, below: Mixture) -> Mixture:
    """Fill the empty rows of `above` with those of `below`."""
    gaps = ~above.known
    weights = above.weights + scipy.sparse.diags_array(gaps.astype(np.float32)) @ below.weights
    return _rebuild(weights, np.where(gaps, below.origin, above.origin), above.method, above)


def _rebuild(weights: scipy.sparse.csr_array, origin: np.ndarray, method: str, like: Mixture) -> Mixture:
    weights = scipy.sparse.csr_array(weights, dtype=np.float32)
    weights.sort_indices()
    weights.eliminate_zeros()
    return replace(like, weights=weights, origin=origin.astype(np.uint8), method=method)


def _validate_same_vocabularies(mixtures: Sequence[Mixture]) -> None:
    for mixture in mixtures[1:]:
        if mixture.weights.shape != mixtures[0].weights.shape:
            raise VocabularyError(
                f"mixtures of {mixtures[0].weights.shape} and {mixture.weights.shape} tokens cannot be composed: "
                "make both from the same two tokenizers"
            )
        validate_same_tokens("source", mixture.source_tokens, mixtures[0].source_tokens)
        validate_same_tokens("target", mixture.target_tokens, mixtures[0].target_tokens)
