"""Compute mixing weights from similarities: softmax and sparsemax."""

from __future__ import annotations

import numpy as np
import scipy

from relexify.errors import InputError
from relexify.neighbours import largest_products

__all__ = ["rows_to_csr", "softmax_weights", "sparsemax_products", "sparsemax_weights"]

_FIRST_CANDIDATES = 64
_GROWTH = 8  # factor by which the number of candidates is increased
_MAX_PRODUCTS = 1 << 24
"""Maximum number of products in memory: 2^24 float32 values are 64 MiB."""


def softmax_weights(similarities: np.ndarray, temperature: float) -> np.ndarray:
    """Return softmax(s / τ) along each row, float64 [n × k]; the result is finite for every positive τ.

    Raises:
        InputError: The temperature is not positive.
    """
    if not temperature > 0:
        raise InputError(f"the temperature must be positive, not {temperature}")
    scaled = np.asarray(similarities, dtype=np.float64) / max(temperature, 1e-300)  # smaller τ would overflow
    scaled -= scaled.max(axis=1, keepdims=True)
    weights: np.ndarray = np.exp(scaled)
    weights /= weights.sum(axis=1, keepdims=True)
    return weights


def rows_to_csr(
    rows: np.ndarray, columns: np.ndarray, weights: np.ndarray, shape: tuple[int, int]
) -> scipy.sparse.csr_array:
    """Build a sparse matrix with k weights [n × k] at columns [n × k] of the given distinct rows [n]."""
    k = columns.shape[1]
    lengths = np.zeros(shape[0], dtype=np.int64)
    lengths[rows] = k
    order = np.argsort(rows)
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    return scipy.sparse.csr_array((weights[order].ravel(), columns[order].ravel(), indptr), shape=shape)


def sparsemax_weights(scores: np.ndarray) -> np.ndarray:
    """Return sparsemax(s) along each row, float64 [n × k] (Martins and Astudillo, 2016).

    This is the projection of the scores onto the simplex: max(s - τ, 0), where τ is chosen such that the row sums to 1.
    """
    scores = np.asarray(scores, dtype=np.float64)
    scores = scores - scores.max(axis=1, keepdims=True)  # a shift does not change the result, except for rounding
    weights: np.ndarray = np.maximum(scores - _threshold(-np.sort(-scores, axis=1)), 0)
    return weights


def sparsemax_products(queries: np.ndarray, keys: np.ndarray, *, device: str = "cpu") -> scipy.sparse.csr_array:
    """Return sparsemax(queries @ keys.T) along each row; the whole product is never in memory.

    Only the largest products of a row have weights above 0. The number of candidates of a row is increased until the
    smallest candidate has weight 0. All smaller products then have weight 0 too, so the result is exact.

    Args:
        queries: [n × d].
        keys: [m × d].
        device: `"cpu"`, or a torch device such as `"cuda"`.

    Returns:
        Weights, float64 [n × m].
    """
    result = scipy.sparse.csr_array((len(queries), len(keys)), dtype=np.float64)
    remaining, candidates = np.arange(len(queries)), min(_FIRST_CANDIDATES, len(keys))
    while len(remaining):
        unfinished = []
        size = max(1, _MAX_PRODUCTS // candidates)
        for start in range(0, len(remaining), size):
            rows = remaining[start : start + size]
            columns, scores = largest_products(queries[rows], keys, candidates, device=device)
            weights = sparsemax_weights(scores)
            exact = (weights[:, -1] == 0) | (candidates == len(keys))
            result = result + rows_to_csr(rows[exact], columns[exact], weights[exact], result.shape)
            result.eliminate_zeros()
            unfinished.append(rows[~exact])
        remaining, candidates = np.concatenate(unfinished), min(_GROWTH * candidates, len(keys))
    return result


def _threshold(descending: np.ndarray) -> np.ndarray:
    """Return τ of sparsemax [n × 1] for scores in descending order [n × k]."""
    ranks = np.arange(1, descending.shape[1] + 1)
    # excess_j = Σ_{i ≤ j} s_i − 1; the support is every j with 1 + j s_j > Σ_{i ≤ j} s_i, that is j s_j > excess_j.
    excess = np.cumsum(descending, axis=1) - 1
    support = (ranks * descending > excess).sum(axis=1, keepdims=True)
    threshold: np.ndarray = np.take_along_axis(excess, support - 1, axis=1) / support
    return threshold
