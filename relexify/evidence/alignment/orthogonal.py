"""The orthogonal Procrustes problem: the rotation that brings pairs of rows closest together."""

from __future__ import annotations

import numpy as np
from threadpoolctl import threadpool_limits

__all__ = ["fit_orthogonal"]

SMALL = 1024
"""Up to this width, a single thread is used. If all cores are busy, the threads of a small decomposition mostly wait
for each other: on two busy cores, a decomposition of width 300 took 1.9 seconds with two threads and 0.1 with one."""


def fit_orthogonal(source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Return the orthogonal matrix X that minimises ‖source X − target‖, float64 [d × d].

    Args:
        source: Rows to map [n × d].
        target: The row that each source row should be mapped to [n × d].
    """
    from scipy.linalg import orthogonal_procrustes

    with threadpool_limits(limits=1 if source.shape[1] <= SMALL else None, user_api="blas"):
        matrix, _ = orthogonal_procrustes(source.astype(np.float64, copy=False), target.astype(np.float64, copy=False))
    return np.asarray(matrix)
