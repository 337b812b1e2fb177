"""Procrustes on mutual neighbours, again and again, while that makes the spaces agree better."""

from __future__ import annotations

import numpy as np
import torch
from scipy.linalg import orthogonal_procrustes

from relexify.evidence.alignment.unsupervised.agreement import Agreement, mutual_neighbours

__all__ = ["refine"]


def refine(
    source: torch.Tensor, target: torch.Tensor, matrix: np.ndarray, *, rounds: int, k: int = 10
) -> tuple[np.ndarray, Agreement]:
    """Fit an orthogonal map to mutual neighbours, find neighbours anew, and so on; the best map of all is returned.

    Args:
        source: Frequent words of the source space [n × d].
        target: Frequent words of the target space [m × d].
        matrix: Where to begin, [d × d], for row vectors.
        rounds: At most so many fits.
        k: Of CSLS.

    Returns:
        The map, float64 [d × d], and how well the spaces agree under it; `matrix` itself where no fit does better.
    """
    best, agreement = matrix, _agreement(source, target, matrix, k)
    left, right = (rows.cpu().numpy().astype(np.float64) for rows in (source, target))
    current = agreement
    for _ in range(rounds):
        if not len(current):
            break
        fitted, _ = orthogonal_procrustes(left[current.source], right[current.target])
        current = _agreement(source, target, fitted, k)
        if current.closeness <= agreement.closeness:
            break
        best, agreement = fitted, current
    return best, agreement


def _agreement(source: torch.Tensor, target: torch.Tensor, matrix: np.ndarray, k: int) -> Agreement:
    return mutual_neighbours(source @ torch.from_numpy(matrix).to(source), target, k)
