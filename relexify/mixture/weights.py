"""From neighbours to weights."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from relexify.errors import InputError

__all__ = ["rows_to_csr", "softmax_weights"]


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
