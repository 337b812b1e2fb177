"""From neighbours to weights."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from relexify.errors import InputError
from relexify.neighbours import largest_products

__all__ = ["rows_to_csr", "softmax_weights", "sparsemax_products", "sparsemax_weights"]

_FIRST_LOOK = 64
_WIDER = 8
_MOST_PRODUCTS = 1 << 24
"""Products of the largest kept at a time: 2^24 float32 are 64 MiB."""


def softmax_weights(similarities: np.ndarray, temperature: float) -> np.ndarray:
    """softmax(s / τ) along each row, [n × k], in float64; finite for every positive τ.

    Raises:
        InputError: The temperature is not positive.
    """
    if not temperature > 0:
        raise InputError(f"the temperature must be positive, not {temperature}")
    scaled = np.asarray(similarities, dtype=np.float64) / temperature
    scaled -= scaled.max(axis=1, keepdims=True)
    weights: np.ndarray = np.exp(scaled)
    weights /= weights.sum(axis=1, keepdims=True)
    return weights


def rows_to_csr(rows: np.ndarray, columns: np.ndarray, weights: np.ndarray, shape: tuple[int, int]) -> csr_array:
    """Put k weights [n × k] at columns [n × k] of the given rows [n] into a sparse matrix."""
    k = columns.shape[1]
    lengths = np.zeros(shape[0], dtype=np.int64)
    lengths[rows] = k
    order = np.argsort(rows)
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    return csr_array((weights[order].ravel(), columns[order].ravel(), indptr), shape=shape)


def sparsemax_weights(scores: np.ndarray) -> np.ndarray:
    """sparsemax(s) along each row, [n × k], in float64 (Martins and Astudillo, 2016).

    The point of the simplex nearest to the scores: max(s - τ, 0) with the τ that makes the row sum to one.
    """
    scores = np.asarray(scores, dtype=np.float64)
    scores = scores - scores.max(axis=1, keepdims=True)  # a shift changes nothing but the rounding
    weights: np.ndarray = np.maximum(scores - _threshold(-np.sort(-scores, axis=1)), 0)
    return weights


def sparsemax_products(queries: np.ndarray, keys: np.ndarray, *, device: str = "cpu") -> csr_array:
    """sparsemax(queries @ keys.T) along each row, without ever holding that matrix.

    Only the largest products of a row can have a weight. So many are looked at that the smallest of them has none,
    which proves that no other has: the result is exact.

    Args:
        queries: [n × d].
        keys: [m × d].
        device: `"cpu"`, or a torch device such as `"cuda"`.

    Returns:
        float64 [n × m].
    """
    found = csr_array((len(queries), len(keys)), dtype=np.float64)
    left, looked_at = np.arange(len(queries)), min(_FIRST_LOOK, len(keys))
    while len(left):
        unsettled = []
        size = max(1, _MOST_PRODUCTS // looked_at)
        for start in range(0, len(left), size):
            rows = left[start : start + size]
            columns, scores = largest_products(queries[rows], keys, looked_at, device=device)
            weights = sparsemax_weights(scores)
            settled = (weights[:, -1] == 0) | (looked_at == len(keys))
            found = found + rows_to_csr(rows[settled], columns[settled], weights[settled], found.shape)
            found.eliminate_zeros()
            unsettled.append(rows[~settled])
        left, looked_at = np.concatenate(unsettled), min(_WIDER * looked_at, len(keys))
    return found


def _threshold(falling: np.ndarray) -> np.ndarray:
    """τ of sparsemax for scores in falling order [n × k], [n × 1]."""
    ranks = np.arange(1, falling.shape[1] + 1)
    # The excess over 1 of all scores as large as the j-th or larger; the support is where j s_j exceeds it.
    excess = np.cumsum(falling, axis=1) - 1
    support = (ranks * falling > excess).sum(axis=1, keepdims=True)
    threshold: np.ndarray = np.take_along_axis(excess, support - 1, axis=1) / support
    return threshold
