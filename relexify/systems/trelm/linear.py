"""A linear map that foretells a model's rows from static vectors, fitted to tokens that belong together."""

from __future__ import annotations

import numpy as np

__all__ = ["fitted_linear"]

RESTRAINTS = np.geomspace(1e-3, 10, 13)
"""What may be added to the variance of a component, which is one on average; the more, the shorter the rows."""


def fitted_linear(rows: np.ndarray, deviations: np.ndarray, pairs: np.ndarray) -> tuple[np.ndarray, float]:
    """The map that foretells how far a model's rows are from their mean, by ridge regression.

    It is restrained so far that each pair is foretold best by all others. Unlike an orthogonal map, it makes short
    rows where vectors tell little of the model's.

    Args:
        rows: Prepared vectors [n × d].
        deviations: The model's rows without their mean [m × d].
        pairs: Places in both [pairs × 2].

    Returns:
        The map [d × d], and which share of the variance of a pair's row the other pairs foretell beyond what all
        pairs have in common; it may be negative.
    """
    if not len(pairs):
        return np.zeros((rows.shape[1], rows.shape[1])), 0.0
    known, wanted = rows[pairs[:, 0]], deviations[pairs[:, 1]]
    variances, axes = np.linalg.eigh(known.T @ known)
    turned = known @ axes
    product = turned.T @ wanted

    def missed(restraint: float) -> float:
        """The mean square of what a map of all other pairs misses of a pair's row: by its leverage, no fit each."""
        weights = 1 / (variances + restraint)
        residuals = wanted - turned @ (weights[:, None] * product)
        leverage = turned**2 @ weights
        return float(np.mean((residuals / (1 - leverage)[:, None]) ** 2))

    restraint = min(RESTRAINTS * len(pairs), key=missed)
    fitted = axes @ (product / (variances + restraint)[:, None])
    variance = float(np.mean((wanted - wanted.mean(axis=0)) ** 2))
    return fitted, 1 - missed(restraint) / variance if variance else 0.0
