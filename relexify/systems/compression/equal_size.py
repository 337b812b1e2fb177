"""k-means with clusters of bounded size.

The assignment under capacities is a transport problem. An exact solver needs N² memory; here prices of the clusters
are found by Sinkhorn's iteration on a sample (a cluster that too many rows want becomes dearer), and the rows are then
placed by the cost after prices, those first that would lose most by their second choice. Costs are N × M all in all.
"""

from __future__ import annotations

import numpy as np

__all__ = ["bounded_labels", "equal_size_labels", "squared_distances"]

SAMPLE = 8_192
"""Rows that prices are found on."""
ROUNDS = 3
"""Assignments of all rows, with new centres after each."""
CHUNK = 16_384


def equal_size_labels(rows: np.ndarray, centres: np.ndarray, *, seed: int = 0) -> np.ndarray:
    """Label rows with clusters of at most ⌈n / M⌉ rows.

    Args:
        rows: [n × d].
        centres: Of plain k-means, to begin with [M × d].
        seed: Of the sample.

    Returns:
        A label from 0 to M - 1 for every row [n].
    """
    capacity = -(-len(rows) // len(centres))
    labels = np.zeros(len(rows), dtype=np.int64)
    for _ in range(ROUNDS):
        costs = squared_distances(rows, centres)
        labels = bounded_labels(costs, capacity, seed=seed)
        centres = _means(rows, labels, centres)
    return labels


def bounded_labels(costs: np.ndarray, capacity: int, *, seed: int = 0) -> np.ndarray:
    """A cheap assignment of rows to columns, no column taken by more than `capacity` rows.

    Args:
        costs: [n × m], with n ≤ m · capacity.
        capacity: Of every column.
        seed: Of the sample that prices are found on.

    Returns:
        The column of every row [n].
    """
    prices = _prices(costs, seed)
    labels = np.full(len(costs), -1, dtype=np.int64)
    left = np.full(costs.shape[1], capacity)
    waiting = np.arange(len(costs))
    while len(waiting):
        columns = np.flatnonzero(left)
        wanted, margin = _choices(costs, waiting, columns, prices[columns])
        # In the order of columns, those with the most to lose first; a column takes as many as it has room for.
        order = np.lexsort((-margin, wanted))
        sorted_wanted = wanted[order]
        first = np.searchsorted(sorted_wanted, sorted_wanted)
        fits = order[np.arange(len(order)) - first < left[sorted_wanted]]
        labels[waiting[fits]] = wanted[fits]
        left -= np.bincount(wanted[fits], minlength=len(left))
        waiting = np.delete(waiting, fits)
    return labels


def squared_distances(rows: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Squared Euclidean distances [n × M], without the length of the row, which is the same for all centres."""
    costs: np.ndarray = rows @ (-2 * centres.T)
    costs += np.einsum("md,md->m", centres, centres)
    return costs


def _choices(
    costs: np.ndarray, waiting: np.ndarray, columns: np.ndarray, prices: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The cheapest open column of each waiting row, and what its second choice would cost more."""
    wanted, margin = np.empty(len(waiting), np.int64), np.zeros(len(waiting), costs.dtype)
    for start in range(0, len(waiting), CHUNK):
        part = slice(start, start + CHUNK)
        dear = costs[waiting[part]] if len(columns) == costs.shape[1] else costs[np.ix_(waiting[part], columns)]
        dear = dear + prices
        best = dear.argmin(axis=1)
        wanted[part] = columns[best]
        if len(columns) > 1:
            lowest = dear[np.arange(len(dear)), best]
            dear[np.arange(len(dear)), best] = np.inf
            margin[part] = dear.min(axis=1) - lowest
    return wanted, margin


def _prices(costs: np.ndarray, seed: int) -> np.ndarray:
    """What each column must cost beside its distance, so that all are wanted alike (Sinkhorn, ever less entropy)."""
    count, columns = costs.shape
    if count > SAMPLE:
        costs = costs[np.random.default_rng(seed).choice(count, SAMPLE, replace=False)]
    costs = costs - costs.min(axis=1, keepdims=True)
    prices = np.zeros(columns, dtype=costs.dtype)
    softness = float(costs.mean()) / 4
    if columns == 1 or softness <= 0 or not np.isfinite(softness):
        return prices
    for _ in range(4):
        for _ in range(6):
            shares = np.exp(-(costs + prices) / softness + (costs + prices).min(axis=1, keepdims=True) / softness)
            shares /= shares.sum(axis=1, keepdims=True)
            load = shares.sum(axis=0) * columns / len(costs)
            prices += (softness * np.log(np.maximum(load, 1e-3))).astype(prices.dtype)
        softness /= 3
    return prices


def _means(rows: np.ndarray, labels: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """The mean of each cluster; an empty one keeps its centre."""
    order = np.argsort(labels, kind="stable")
    found, starts, counts = np.unique(labels[order], return_index=True, return_counts=True)
    means = centres.copy()
    for label, start, count in zip(found, starts, counts, strict=True):
        means[label] = rows[order[start : start + count]].mean(axis=0)
    return means
