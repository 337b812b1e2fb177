"""The other way into a model's space: by tokens that both vocabularies have, where a game is lost or to compare."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.linalg import orthogonal_procrustes

from relexify.errors import EvidenceError
from relexify.tokens import TokenForm

__all__ = ["check_pairs", "fitted_map", "identical_tokens"]

LEAST_LETTERS = 2
"""Shorter tokens are pieces of anything, and say little in either vocabulary."""


def identical_tokens(new: Sequence[TokenForm], old: Sequence[TokenForm]) -> np.ndarray:
    """Which new tokens are written like which old ones, as places among both, int64 [pairs × 2]."""
    places = {form: place for place, form in enumerate(old) if len(form.text) >= LEAST_LETTERS}
    pairs = [(place, places[form]) for place, form in enumerate(new) if form in places]
    return np.array(pairs, np.int64).reshape(-1, 2)


def check_pairs(pairs: np.ndarray, width: int) -> None:
    """Refuse to fit a map on too little.

    Raises:
        EvidenceError: There are fewer pairs than a map has dimensions.
    """
    if len(pairs) < width:
        raise EvidenceError(
            f"the two vocabularies have {len(pairs)} tokens in common, and vectors {width} wide need as many "
            'at least: align them by their shapes (aligned_by = "unsupervised")'
        )


def fitted_map(rows: np.ndarray, anchor: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """The orthogonal map that brings the rows of pairs closest together, [d × d], for row vectors.

    Args:
        rows: Prepared vectors [n × d].
        anchor: The model's rows, prepared likewise [m × d].
        pairs: Places in both [pairs × 2].
    """
    fitted, _ = orthogonal_procrustes(rows[pairs[:, 0]], anchor[pairs[:, 1]])
    matrix: np.ndarray = fitted
    return matrix
