"""Mixtures from rows, and mixtures from mixtures: an order of evidence, and weighted blends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

import numpy as np
from scipy.sparse import csr_array, diags_array

from relexify.errors import VocabularyError
from relexify.mixture.mixture import Fallback, Mixture, Origin, validate_same_tokens
from relexify.tokens import Vocabulary

__all__ = ["blend", "first_of", "mixture_of_rows", "mixture_of_weights"]


def mixture_of_rows(
    rows: Sequence[Sequence[int]], source: Vocabulary, target: Vocabulary, *, method: str, origin: Origin | np.ndarray
) -> Mixture:
    """Each target token is the mean of the listed source tokens; an empty list says that nothing is known."""
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    indices = np.array([id for row in rows for id in row], dtype=np.int64)
    data = np.repeat(1.0 / np.maximum(lengths, 1), lengths)
    weights = csr_array((data, indices, indptr), shape=(len(target), len(source)))
    single = np.array([len(set(row)) == 1 for row in rows], dtype=bool)
    origins = np.where(single & (np.asarray(origin) == Origin.PIECES), Origin.COPIED, origin)
    return mixture_of_weights(weights, source, target, method=method, origin=origins)


def mixture_of_weights(
    weights: csr_array,
    source: Vocabulary,
    target: Vocabulary,
    *,
    method: str,
    origin: Origin | np.ndarray,
    fallback: Fallback = Fallback.OLD_ROWS,
) -> Mixture:
    """A mixture of ready weights [target × source]; rows without entries are marked as random."""
    weights = csr_array(weights, dtype=np.float32)
    weights.sum_duplicates()
    weights.eliminate_zeros()
    known = np.diff(weights.indptr) > 0
    origins = np.where(known, origin, Origin.RANDOM).astype(np.uint8)
    spellings = source.spelling, target.spelling
    return Mixture(weights, origins, method, source.tokens, target.tokens, *spellings, fallback=fallback)


def first_of(*mixtures: Mixture, method: str | None = None) -> Mixture:
    """Take each row from the first mixture that knows it: the order of evidence; the last one has the fallback."""
    _check_same_vocabularies(mixtures)
    name = method or " > ".join(mixture.method for mixture in mixtures)
    return replace(reduce(_over, mixtures), method=name, fallback=mixtures[-1].fallback)


def blend(*parts: tuple[float, Mixture], method: str | None = None) -> Mixture:
    """Add mixtures with weights; a row that some of them do not know is shared among those that do.

    Rows that none of them knows have the fallback of the last.
    """
    mixtures = [mixture for _, mixture in parts]
    _check_same_vocabularies(mixtures)
    shares = np.array([share for share, _ in parts], dtype=np.float64)[:, None]
    known = np.stack([mixture.known for mixture in mixtures])
    totals = (shares * known).sum(axis=0)
    scales = np.divide(shares * known, totals, out=np.zeros(known.shape), where=totals > 0)
    weights = sum(
        (diags_array(scale) @ mixture.weights for scale, mixture in zip(scales, mixtures, strict=True)),
        start=csr_array(mixtures[0].weights.shape, dtype=np.float64),
    )
    alone = known.sum(axis=0) == 1
    lone = np.stack([mixture.origin for mixture in mixtures])[known.argmax(axis=0), np.arange(known.shape[1])]
    origin = np.where(known.any(axis=0), np.where(alone, lone, Origin.MIXED), Origin.RANDOM)
    name = method or " + ".join(f"{share:g} {mixture.method}" for share, mixture in parts)
    return _rebuilt(weights, origin, name, mixtures[-1])


def _over(above: Mixture, below: Mixture) -> Mixture:
    """Rows of `below` where `above` knows nothing."""
    gaps = ~above.known
    weights = above.weights + diags_array(gaps.astype(np.float32)) @ below.weights
    return _rebuilt(weights, np.where(gaps, below.origin, above.origin), above.method, above)


def _rebuilt(weights: csr_array, origin: np.ndarray, method: str, like: Mixture) -> Mixture:
    weights = csr_array(weights, dtype=np.float32)
    weights.sort_indices()
    weights.eliminate_zeros()
    return replace(like, weights=weights, origin=origin.astype(np.uint8), method=method)


def _check_same_vocabularies(mixtures: Sequence[Mixture]) -> None:
    for mixture in mixtures[1:]:
        if mixture.weights.shape != mixtures[0].weights.shape:
            raise VocabularyError(
                f"mixtures of {mixtures[0].weights.shape} and {mixture.weights.shape} tokens cannot be composed: "
                "make both from the same two tokenizers"
            )
        validate_same_tokens("source", mixture.source_tokens, mixtures[0].source_tokens)
        validate_same_tokens("target", mixture.target_tokens, mixtures[0].target_tokens)
