"""Two spaces of vectors: validate and prepare them, measure how well they agree, refine a map between them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch

from relexify.device import resolve_device
from relexify.errors import EvidenceError, InputError
from relexify.evidence.alignment.orthogonal import fit_orthogonal
from relexify.evidence.alignment.unsupervised.options import AdversarialTraining
from relexify.evidence.vectors.word_vectors import WordVectors
from relexify.neighbours import normalise_rows

__all__ = [
    "Agreement",
    "fit_pairs",
    "frequent_rows",
    "mutual_neighbours",
    "prepare_space",
    "principal_axes",
    "random_rotation",
    "refine",
    "validate_matrices",
    "validate_spaces",
]

WORDS_PER_COMPONENT = 5
"""Minimum number of words per dimension: with fewer, some rotation fits any two clouds of points."""
BLOCK_CELLS = 1 << 24
"""Maximum number of similarities in memory at a time."""


def validate_matrices(source: np.ndarray, target: np.ndarray) -> None:
    """Validate that two matrices can be in one space.

    Raises:
        InputError: The widths differ, or a value is NaN or infinite.
    """
    if source.ndim != 2 or target.ndim != 2 or source.shape[1] != target.shape[1]:
        raise InputError(
            f"the spaces {list(source.shape)} and {list(target.shape)} must be matrices of the same width: "
            "use vectors of the same width, or project the wider ones"
        )
    for name, matrix in (("source", source), ("target", target)):
        if not np.isfinite(matrix).all():
            raise InputError(f"the {name} vectors hold NaN or infinity: download or train them again")


def validate_spaces(source: np.ndarray, target: np.ndarray) -> None:
    """Validate that a map can be searched for between two spaces.

    Raises:
        InputError: The widths differ, or a value is NaN or infinite.
        EvidenceError: There are too few words for the width.
    """
    validate_matrices(source, target)
    for name, matrix in (("source", source), ("target", target)):
        words = int(np.any(matrix != 0, axis=1).sum())
        least = WORDS_PER_COMPONENT * matrix.shape[1]
        if words < least:
            raise EvidenceError(
                f"the {name} side has {words} words with a vector, but without known pairs, vectors of width "
                f"{matrix.shape[1]} need at least {least}: give more text or words, or align them by pairs "
                "(a dictionary, identical words or tokens)"
            )


def frequent_rows(vectors: WordVectors, words: int) -> np.ndarray:
    """Return the vectors of the most frequent words, without zero rows, [n × d]."""
    rows = vectors.lookup(vectors.words[:words])
    nonzero: np.ndarray = rows[np.any(rows != 0, axis=1)]
    return nonzero


def prepare_space(matrix: np.ndarray, options: AdversarialTraining, device: str) -> torch.Tensor:
    """Return the vectors centred and normalised as the options request, float32 [n × d].

    The mean of the frequent words is subtracted; zero rows stay zero.
    """
    rows = np.asarray(matrix, dtype=np.float64)
    if options.centre:  # before normalising, because a large common direction would dominate every unit vector
        nonzero = np.any(rows != 0, axis=1)
        rows = np.where(nonzero[:, None], rows - rows[nonzero][: options.frequent].mean(axis=0), 0)
    if options.normalise:
        lengths: np.ndarray = np.linalg.norm(rows, axis=1, keepdims=True)
        rows = rows / np.maximum(lengths, 1e-30)
    # Scale to a mean square of one per component, so that the same learning rate is suitable for all widths.
    scale = math.sqrt(rows.shape[1] / max(np.mean(np.sum(rows[: options.frequent] ** 2, axis=1)), 1e-30))
    return torch.from_numpy((rows * scale).astype(np.float32)).to(resolve_device(device))


def random_rotation(width: int, random: np.random.Generator) -> np.ndarray:
    """Draw an orthogonal matrix uniformly, [width × width]."""
    directions, triangle = np.linalg.qr(random.normal(size=(width, width)))
    # QR does not determine the signs of the columns; fixing them makes the distribution uniform (Mezzadri, 2007).
    rotation: np.ndarray = directions * np.sign(np.diag(triangle))
    return rotation


def principal_axes(rows: torch.Tensor) -> np.ndarray:
    """Return the principal axes of a space as columns, by decreasing variance, [d × d].

    The sign of an axis is arbitrary, so each axis is oriented such that the skewness along it is positive.
    """
    values = rows.cpu().double().numpy()
    _, directions = np.linalg.eigh(values.T @ values)
    skewness = np.mean((values @ directions) ** 3, axis=0)
    axes: np.ndarray = (directions * np.where(skewness < 0, -1.0, 1.0))[:, ::-1]
    return axes


@dataclass(frozen=True, eq=False)
class Agreement:
    """The words of two spaces that are mutual nearest neighbours.

    Attributes:
        source: Rows of the source space, ascending, int64 [pairs].
        target: Their neighbours, int64 [pairs].
        mean: Mean CSLS of the pairs, 0 if there are none.
        cosine: Mean cosine of the pairs.
        share: The share of source words that are in a pair.
    """

    source: np.ndarray
    target: np.ndarray
    mean: float
    cosine: float
    share: float

    def __len__(self) -> int:
        return len(self.source)

    @property
    def strength(self) -> float:
        """Mean CSLS over all words, 0 for words without a mutual neighbour: the criterion for finished maps.

        The share alone would be high for any data of few dimensions, and the mean CSLS alone if there are few pairs.
        """
        return self.mean * self.share

    @property
    def closeness(self) -> float:
        """Mean cosine over all words, 0 for words without a mutual neighbour: the criterion during training.

        CSLS is not suitable here: it decreases while two clouds approach each other, until words begin to match.
        """
        return self.cosine * self.share


@torch.no_grad()
def mutual_neighbours(source: torch.Tensor, target: torch.Tensor, k: int = 10) -> Agreement:
    """Find the pairs that are nearest in both directions by CSLS (Conneau et al., 2018).

    CSLS(x, y) = 2 cos(x, y) − r(x) − r(y), where r is the mean cosine to the k nearest words of the other space.

    Args:
        source: [n × d].
        target: [m × d].
        k: Number of neighbours in the means.
    """
    source, target = (torch.nn.functional.normalize(rows, dim=1) for rows in (source, target))
    columns = target.T
    size = max(1, BLOCK_CELLS // len(target))
    blocks = [slice(start, start + size) for start in range(0, len(source), size)]
    # First pass: r of every source row, and a running top k of every target column.
    by_row, by_column = [], source.new_zeros(0, len(target))
    for block in blocks:
        cosines = source[block] @ columns
        by_row.append(cosines.topk(min(k, len(target)), dim=1).values.mean(dim=1))
        by_column = torch.cat([by_column, cosines.topk(min(k, len(cosines)), dim=0).values])
        by_column = by_column.topk(min(k, len(by_column)), dim=0).values
    crowding = by_column.mean(dim=0)
    # Second pass: the best column of every row, and the best row so far of every column.
    best_of_source, values = [], []
    best_value = torch.full_like(crowding, -torch.inf)
    best_of_target = torch.zeros_like(crowding, dtype=torch.int64)
    for block, row in zip(blocks, by_row, strict=True):
        scores = 2 * (source[block] @ columns) - row[:, None] - crowding
        value, position = scores.max(dim=1)
        best_of_source.append(position)
        values.append(value)
        value, position = scores.max(dim=0)
        better = value > best_value
        best_value = torch.where(better, value, best_value)
        best_of_target = torch.where(better, position + block.start, best_of_target)
    found = torch.cat(best_of_source)
    rows = torch.arange(len(source), device=source.device)
    mutual = best_of_target[found] == rows
    some = bool(mutual.any())
    cosines = (source * target[found]).sum(dim=1)
    return Agreement(
        rows[mutual].cpu().numpy(),
        found[mutual].cpu().numpy(),
        mean=float(torch.cat(values)[mutual].double().mean()) if some else 0.0,
        cosine=float(cosines[mutual].double().mean()) if some else 0.0,
        share=float(mutual.double().mean()),
    )


def fit_pairs(source: np.ndarray, target: np.ndarray, pairs: Agreement) -> np.ndarray:
    """Fit an orthogonal map, float64 [d × d], to pairs of rows [n × d] and [m × d], scaled to unit length."""
    return fit_orthogonal(normalise_rows(source[pairs.source]), normalise_rows(target[pairs.target]))


def refine(
    source: torch.Tensor, target: torch.Tensor, matrix: np.ndarray, *, rounds: int, k: int = 10
) -> tuple[np.ndarray, Agreement]:
    """Refine a map: fit it to mutual neighbours with Procrustes, find neighbours again, and repeat while this helps.

    Args:
        source: Frequent words of the source space [n × d].
        target: Frequent words of the target space [m × d].
        matrix: The map to start from, [d × d], for row vectors.
        rounds: Maximum number of fits.
        k: k of CSLS.

    Returns:
        The best map, float64 [d × d], and the agreement under it; `matrix` itself if no fit is better.
    """

    def agreement_under(candidate: np.ndarray) -> Agreement:
        return mutual_neighbours(source @ torch.from_numpy(candidate).to(source), target, k)

    best, agreement = matrix, agreement_under(matrix)
    left, right = (rows.cpu().numpy().astype(np.float64) for rows in (source, target))
    current = agreement
    for _ in range(rounds):
        if not len(current):
            break
        fitted = fit_orthogonal(left[current.source], right[current.target])
        current = agreement_under(fitted)
        if current.closeness <= agreement.closeness:
            break
        best, agreement = fitted, current
    return best, agreement
