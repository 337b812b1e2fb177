"""Positions of tokens on a map, so that tokens with similar embeddings are near one another.

The map is drawn from the graph of nearest neighbours, with the forces of UMAP (McInnes et al., 2018) for a = b = 1:
neighbours attract each other, random tokens repel each other. All forces of an iteration are computed at once, and
averaged over the neighbours of a token, so that tokens with many neighbours do not overshoot.
"""

from __future__ import annotations

import numpy as np

from relexify.errors import InputError
from relexify.neighbours import nearest_others, normalise_rows

__all__ = ["are_distinguishable", "comparable_rows", "map_positions", "neighbours_of_rows"]

_DIRECTIONS = 2
"""Strongest directions that are removed from embeddings: they encode frequency rather than meaning (Mu and Viswanath,
2018, "All-but-the-top")."""
_WIDTH = 128
"""Dimensions that neighbours are searched in."""
_SKETCH = 1024
"""Wider embeddings are projected at random first, which keeps angles (Johnson and Lindenstrauss)."""
_LARGEST_EXPONENT = 40
"""Rows with numbers beyond 2 to this power, or its inverse, are scaled: their squares overflow float32."""
_KEYS = 50_000
"""Neighbours are searched among this many tokens, the first of the vocabulary."""
_ITERATIONS, _REPELLED = 150, 5
_FURTHEST = 4.0
"""Length of the longest step."""


def comparable_rows(embedding: np.ndarray) -> np.ndarray:
    """Return rows [n × at most 130] whose angles show which tokens are similar, ordered by falling variance.

    The first two columns are the strongest directions; leave them out to compare meanings.

    Raises:
        InputError: The embedding has NaN or infinite values.
    """
    rows = np.asarray(embedding, np.float32)
    if not np.isfinite(rows).all():
        raise InputError("the embedding has NaN or infinite values, so it has no map: relexify check says where")
    largest = int(np.frexp(np.abs(rows).max(initial=0))[1])
    if abs(largest) > _LARGEST_EXPONENT:
        rows = np.ldexp(rows, -largest)
    if rows.shape[1] > _SKETCH:
        projection = np.random.default_rng(0).standard_normal((rows.shape[1], _SKETCH), np.float32)
        rows = rows @ (projection / np.sqrt(_SKETCH, dtype=np.float32))
    rows = rows - rows.mean(axis=0)
    _, directions = np.linalg.eigh((rows.T @ rows).astype(np.float64))  # ascending
    chosen = directions[:, ::-1][:, : _WIDTH + _DIRECTIONS].astype(np.float32)
    # The sign of an eigenvector is arbitrary, and depends on the library: fix it.
    chosen *= np.sign(chosen[np.abs(chosen).argmax(axis=0), np.arange(chosen.shape[1])])
    projected: np.ndarray = rows @ chosen
    return projected


def are_distinguishable(rows: np.ndarray) -> bool:
    """Return whether rows from `comparable_rows` have neighbours: whether some of those searched have a direction."""
    return bool(normalise_rows(_meanings(rows)[:_KEYS]).any())


def neighbours_of_rows(rows: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the nearest other rows by cosine.

    Args:
        rows: From `comparable_rows` [n × d].
        count: Neighbours per row.

    Returns:
        Their indices and cosines, [n × at most `count`], nearest first.
    """
    meanings = _meanings(rows)
    return nearest_others(meanings, meanings[:_KEYS], count, own=np.arange(len(rows)))


def map_positions(rows: np.ndarray, neighbours: np.ndarray) -> np.ndarray:
    """Return positions [n × 2] between 0 and 1.

    Args:
        rows: From `comparable_rows` [n × d].
        neighbours: From `neighbours_of_rows` [n × k].
    """
    count, draw = len(rows), np.random.default_rng(0)
    start = normalise_rows(rows)[:, _DIRECTIONS : 2 * _DIRECTIONS] if rows.shape[1] >= 2 * _DIRECTIONS else rows[:, :2]
    positions = np.zeros((count, 2), np.float32)
    positions[:, : start.shape[1]] = start / (start.std(axis=0) + 1e-9) * 4
    positions += draw.normal(0, 0.05, positions.shape).astype(np.float32)  # equal rows must be able to part
    one = np.repeat(np.arange(count), neighbours.shape[1])
    other = neighbours.ravel()
    degree = np.bincount(one, minlength=count) + np.bincount(other, minlength=count)  # at least that of `one`
    for iteration in range(_ITERATIONS):
        difference = positions[one] - positions[other]
        pull = -2 * difference / (1 + (difference**2).sum(axis=1, keepdims=True))
        pulls = [np.bincount(one, each, count) - np.bincount(other, each, count) for each in pull.T]
        force = np.stack(pulls, axis=1) / degree[:, None]
        for _ in range(_REPELLED):
            difference = positions - positions[draw.integers(0, count, count)]
            squared = (difference**2).sum(axis=1, keepdims=True)
            force += 2 * difference / ((0.1 + squared) * (1 + squared)) / _REPELLED
        rate = 1 - iteration / _ITERATIONS
        positions += np.clip(rate * force, -_FURTHEST, _FURTHEST).astype(np.float32)
    # Half by distance, half by rank: stragglers then do not shrink everything else.
    low, high = np.percentile(positions, [1, 99], axis=0)
    linear = np.clip((positions - low) / np.maximum(high - low, 1e-9), 0, 1)
    ranks = positions.argsort(axis=0, kind="stable").argsort(axis=0, kind="stable") / max(1, count - 1)
    placed: np.ndarray = (linear + ranks) / 2
    return placed


def _meanings(rows: np.ndarray) -> np.ndarray:
    return rows[:, _DIRECTIONS:] if rows.shape[1] > 2 * _DIRECTIONS else rows
