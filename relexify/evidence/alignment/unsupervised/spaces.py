"""Two spaces as a game wants them: finite, centred, of one length, on the device."""

from __future__ import annotations

import math

import numpy as np
import torch

from relexify.errors import EvidenceError, InputError
from relexify.evidence.alignment.unsupervised.options import AdversarialTraining

__all__ = [
    "WORDS_PER_COMPONENT",
    "prepare_space",
    "principal_axes",
    "random_rotation",
    "validate_matrices",
    "validate_spaces",
]

WORDS_PER_COMPONENT = 5
"""With fewer words than that, clouds of points of any two languages can be turned onto one another."""


def validate_matrices(source: np.ndarray, target: np.ndarray) -> None:
    """Refuse what cannot lie in one space.

    Raises:
        InputError: The widths differ, or a value is not finite.
    """
    if source.ndim != 2 or target.ndim != 2 or source.shape[1] != target.shape[1]:
        raise InputError(
            f"the spaces {list(source.shape)} and {list(target.shape)} must be matrices of one width: "
            "use vectors of one width, or project the wider ones"
        )
    for name, matrix in (("source", source), ("target", target)):
        if not np.isfinite(matrix).all():
            raise InputError(f"the {name} vectors hold NaN or infinity: get or train them anew")


def validate_spaces(source: np.ndarray, target: np.ndarray) -> None:
    """Refuse what no map can be found for.

    Raises:
        InputError: The widths differ, or a value is not finite.
        EvidenceError: There are too few words for the width.
    """
    validate_matrices(source, target)
    for name, matrix in (("source", source), ("target", target)):
        words = int(np.any(matrix != 0, axis=1).sum())
        least = WORDS_PER_COMPONENT * matrix.shape[1]
        if words < least:
            raise EvidenceError(
                f"the {name} side has {words} words with a vector, and without known pairs vectors "
                f"{matrix.shape[1]} wide need at least {least}: give more text or words, or align them by pairs "
                "(a dictionary, identical words or tokens)"
            )


def prepare_space(matrix: np.ndarray, options: AdversarialTraining, device: str) -> torch.Tensor:
    """The vectors without their mean and at one length, as the options say, float32 [n × d].

    They are scaled so that a component has a mean square of one, which makes one learning rate fit all widths. The
    mean is that of the frequent words; a zero row stays zero.
    """
    rows = np.asarray(matrix, dtype=np.float64)
    if options.centre:  # first, since at length one a large common direction would leave nothing along it
        some = np.any(rows != 0, axis=1)
        rows = np.where(some[:, None], rows - rows[some][: options.frequent].mean(axis=0), 0)
    rows = _unit(rows) if options.normalise else rows
    scale = math.sqrt(rows.shape[1] / max(np.mean(np.sum(rows[: options.frequent] ** 2, axis=1)), 1e-30))
    return torch.from_numpy((rows * scale).astype(np.float32)).to(device)


def random_rotation(width: int, random: np.random.Generator) -> np.ndarray:
    """An orthogonal matrix, all equally likely, [width × width]."""
    directions, triangle = np.linalg.qr(random.normal(size=(width, width)))
    rotation: np.ndarray = directions * np.sign(np.diag(triangle))
    return rotation


def principal_axes(rows: torch.Tensor) -> np.ndarray:
    """The directions of a cloud from the longest to the shortest, each pointing where its tail is, [d × d]."""
    values = rows.cpu().double().numpy()
    _, directions = np.linalg.eigh(values.T @ values)
    skewness = np.mean((values @ directions) ** 3, axis=0)
    axes: np.ndarray = (directions * np.where(skewness < 0, -1.0, 1.0))[:, ::-1]
    return axes


def _unit(rows: np.ndarray) -> np.ndarray:
    lengths: np.ndarray = np.linalg.norm(rows, axis=1, keepdims=True)
    unit: np.ndarray = rows / np.maximum(lengths, 1e-30)
    return unit
