"""Codes by recursive k-means (Algorithm 2 of the paper): tokens that are alike share digits.

The first digit is the cluster of a token's pretrained row, the second its cluster among the tokens with that first
digit, and so on; the last digit only tells the tokens of one cell apart. Inside a cell it is free which cluster is
called which, and the paper draws the last digit at random. Here the names are chosen so that the tables can say as
much as possible: table i holds one row for all cells, so the clusters of a cell take those names whose rows of table i
are closest to their own columns (a small assignment problem a cell), by turns with the rows themselves.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from relexify.errors import InputError, MissingExtra
from relexify.progress import track
from relexify.systems.compression.codes import check_codes, check_room, smallest_base, split_width
from relexify.systems.compression.equal_size import bounded_labels, equal_size_labels, squared_distances
from relexify.systems.compression.tables import block_means

__all__ = ["clustered_codes"]

LLOYD_ROWS = 20_000
"""More rows than these are clustered in small batches."""
BATCH = 4_096
EPOCHS, ITERATIONS = 5, 20
NAMINGS = 3
"""How often rows of a table and names of clusters are fitted to each other."""
EXACT_NAMES = 1_000_000
"""Costs of one cell up to which the best names are found, not only good ones."""


def clustered_codes(
    rows: np.ndarray,
    k: int,
    clusters: int | None = None,
    *,
    equal_size: bool = False,
    matched: bool = True,
    seed: int = 0,
) -> np.ndarray:
    """Algorithm 2: codes of tokens by their pretrained rows.

    Args:
        rows: Embeddings of a pretrained model [N × d].
        k: Digits of a code.
        clusters: M, of every k-means; ⌈N^(1/k)⌉ if not given.
        equal_size: Bound the clusters, so that M rows suffice for every table. Otherwise the last table gets as many
            rows as the largest cell has tokens.
        matched: Choose names of clusters, and last digits, so that tables fit all cells; else they are arbitrary, as
            in the paper.
        seed: Of k-means and of arbitrary names.

    Returns:
        Digits, a different code for every token [N × k].

    Raises:
        InputError: M^k < N, where clusters are bounded; or a row is not finite.
        MissingExtra: scikit-learn is not installed.
    """
    rows = np.ascontiguousarray(rows, dtype=np.float32)
    tokens = len(rows)
    clusters = smallest_base(tokens, k) if clusters is None else clusters
    if equal_size or k == 1:
        check_room(tokens, [clusters] * k)
    elif clusters < 1:
        raise InputError(f"{clusters} clusters are too few: give 1 or more")
    if not np.isfinite(rows).all():
        raise InputError("the embedding has values that are not finite, so that it cannot be clustered")
    blocks = np.cumsum([0, *split_width(rows.shape[1], k)])
    codes = np.zeros((tokens, k), dtype=np.int64)
    cells = np.zeros(tokens, dtype=np.int64)
    with track("clustering tokens", tokens * k) as advance, threadpool_limits(1), warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="sklearn")  # equal rows make fewer clusters than asked for: no harm
        for level in range(k):
            is_last = level == k - 1
            members = list(_members(cells))
            digits = codes[:, level]
            # In the last level each token of a cell is a cluster of its own.
            labels = _labels(rows, members, tokens if is_last else clusters, equal_size, seed + level)
            for cell, found in zip(members, labels, strict=True):
                digits[cell] = found
                advance(len(cell))
            count = max(map(len, members)) if is_last and not equal_size else clusters
            if matched and (level or k == 1):
                _name_alike(rows[:, blocks[level] : blocks[level + 1]], digits, members, count, seed)
            elif level:
                _name_at_random(digits, members, count, seed + level)
            cells = np.unique(np.stack([cells, digits], axis=1), axis=0, return_inverse=True)[1].ravel()
    return check_codes(codes, tokens)


def _labels(
    rows: np.ndarray, members: list[np.ndarray], clusters: int, equal_size: bool, seed: int
) -> Iterator[np.ndarray]:
    """Labels of every cell's rows, a thread for each cell: cells are small, and several threads in one only wait."""

    def label(place: int) -> np.ndarray:
        return _cluster(rows[members[place]], clusters, equal_size, seed + 1_000 * place)

    threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    with ThreadPoolExecutor(threads) as pool:
        yield from pool.map(label, range(len(members)))


def _members(cells: np.ndarray) -> Iterator[np.ndarray]:
    """The tokens of each cell."""
    order = np.argsort(cells, kind="stable")
    yield from np.split(order, np.flatnonzero(np.diff(cells[order])) + 1)


def _cluster(rows: np.ndarray, clusters: int, equal_size: bool, seed: int) -> np.ndarray:
    """Labels of one cell's rows; where there are no more rows than clusters, each has its own."""
    if len(rows) <= clusters:
        return np.arange(len(rows))
    if clusters == 1:
        return np.zeros(len(rows), dtype=np.int64)
    fitted = _k_means(rows, clusters, seed, start="k-means++")
    if equal_size:
        return equal_size_labels(rows, fitted.cluster_centers_, seed=seed)
    labels: np.ndarray = fitted.labels_
    return labels


def _k_means(rows: np.ndarray, clusters: int, seed: int, *, start: str) -> Any:
    """scikit-learn's k-means; in batches where there are many rows."""
    try:
        from sklearn.cluster import KMeans, MiniBatchKMeans
    except ImportError as error:
        raise MissingExtra("scikit-learn", "clustering tokens", "evaluation") from error
    options: dict[str, Any] = {"n_clusters": clusters, "init": start, "n_init": 1, "random_state": seed % 2**32}
    if len(rows) <= LLOYD_ROWS:
        return KMeans(max_iter=ITERATIONS, **options).fit(rows)
    return MiniBatchKMeans(batch_size=BATCH, max_iter=EPOCHS, **options).fit(rows)


def _name_alike(block: np.ndarray, digits: np.ndarray, cells: list[np.ndarray], count: int, seed: int) -> None:
    """Name the clusters of every cell after those rows of the table that they resemble most, in place.

    Given the names, the best row of a table is the mean of what is called by it; given the rows, the best names are
    an assignment of the cell's clusters. Each step can only make the error of the table smaller.

    Args:
        block: The columns that belong to this table [N × d_i].
        digits: The labels inside the cells, which become names [N].
        cells: The tokens of each cell.
        count: Rows of the table.
        seed: Of the rows to begin with.
    """
    sample = block[np.random.default_rng(seed).permutation(len(block))[:LLOYD_ROWS]]
    if count < len(sample):
        table = _k_means(sample, count, seed, start="random").cluster_centers_
    else:
        table = np.resize(sample, (count, block.shape[1]))
    # Every cluster of every cell once: its mean columns, and how many tokens it stands for.
    clusters = [_cluster_means(block[cell], digits[cell]) for cell in cells]
    for _ in range(NAMINGS):
        for cell, (means, sizes, label) in zip(cells, clusters, strict=True):
            costs = squared_distances(means, table) * sizes[:, None]
            digits[cell] = _distinct_columns(costs)[label]
        table = block_means(block, digits, count, missing=table)


def _cluster_means(block: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean columns of a cell's clusters, their sizes, and the cluster of each token."""
    found, label = np.unique(labels, return_inverse=True)
    if len(found) == len(labels):
        return block[np.argsort(label)], np.ones(len(labels), np.float32), label
    sizes = np.bincount(label)
    return block_means(block, label, len(found)), sizes.astype(np.float32), label


def _distinct_columns(costs: np.ndarray) -> np.ndarray:
    """A different column for every row, at the least cost, or nearly so where the cell is large."""
    if costs.size > EXACT_NAMES:
        return bounded_labels(costs, 1)
    from scipy.optimize import linear_sum_assignment

    columns: np.ndarray = linear_sum_assignment(costs)[1]
    return columns


def _name_at_random(digits: np.ndarray, cells: list[np.ndarray], count: int, seed: int) -> None:
    draw = np.random.default_rng(seed)
    for cell in cells:
        digits[cell] = draw.permutation(count)[digits[cell]]
