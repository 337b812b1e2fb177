"""Clusters of equal size, so that the last digit of a code needs no more rows than the others.

Plain k-means gives cells of very different sizes, and the last table needs one row for every token of the largest cell.
Assigning rows to centres of limited capacity is a transport problem, whose exact solution needs O(N²) memory. Here,
each cluster has a price, found by Sinkhorn iterations on a sample: the price of a cluster that too many rows prefer
rises. Then every row is assigned to the cluster with the lowest sum of cost and price, beginning with the rows that
would lose most by their second choice. This needs memory for N × M numbers.
"""

from __future__ import annotations

import numpy as np

__all__ = ["bounded_labels", "equal_size_labels", "squared_distances"]

PRICE_SAMPLE = 8_192
"""Number of rows that prices are computed from."""
PRICE_STAGES, PRICE_ROUNDS = 4, 6
"""Number of temperatures, and of Sinkhorn iterations at each. Prices may be inexact: capacities are enforced later."""
EQUAL_SIZE_ROUNDS = 3
"""Number of assignments of all rows; centres are recomputed after each."""
CHUNK = 16_384


def equal_size_labels(rows: np.ndarray, centres: np.ndarray, *, seed: int = 0) -> np.ndarray:
    """Label rows with clusters of at most ⌈n / M⌉ rows.

    Args:
        rows: The rows to label [n × d].
        centres: Initial centres, from plain k-means [M × d].
        seed: Random seed of the sample.

    Returns:
        A label from 0 to M - 1 for every row [n].
    """
    capacity = -(-len(rows) // len(centres))
    labels = np.zeros(len(rows), dtype=np.int64)
    for _ in range(EQUAL_SIZE_ROUNDS):
        labels = bounded_labels(squared_distances(rows, centres), capacity, seed=seed)
        order = np.argsort(labels, kind="stable")
        nonempty, starts, counts = np.unique(labels[order], return_index=True, return_counts=True)
        centres = centres.copy()  # an empty cluster keeps its centre
        for label, start, count in zip(nonempty, starts, counts, strict=True):
            centres[label] = rows[order[start : start + count]].mean(axis=0)
    return labels


def bounded_labels(costs: np.ndarray, capacity: int, *, seed: int = 0) -> np.ndarray:
    """Assign rows to columns at a low total cost, with at most `capacity` rows per column.

    Args:
        costs: The cost of each row in each column [n × m], with n ≤ m · capacity.
        capacity: Maximum number of rows of a column.
        seed: Random seed of the sample that prices are computed from.

    Returns:
        The column of every row [n].
    """
    prices = _prices(costs, seed)
    labels = np.full(len(costs), -1, dtype=np.int64)
    free = np.full(costs.shape[1], capacity)
    waiting = np.arange(len(costs))
    while len(waiting):
        columns = np.flatnonzero(free)
        preferred, margin = _choices(costs, waiting, columns, prices[columns])
        # Sort by preferred column and, within a column, by the additional cost of a row's second choice. Each column
        # accepts the first rows up to its free capacity.
        order = np.lexsort((-margin, preferred))
        sorted_columns = preferred[order]
        rank = np.arange(len(order)) - np.searchsorted(sorted_columns, sorted_columns)
        accepted = order[rank < free[sorted_columns]]
        labels[waiting[accepted]] = preferred[accepted]
        free -= np.bincount(preferred[accepted], minlength=len(free))
        waiting = np.delete(waiting, accepted)
    return labels


def squared_distances(rows: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Return squared Euclidean distances [n × M] without the term |row|², which is constant for each row."""
    costs: np.ndarray = rows @ (-2 * centres.T)
    costs += np.einsum("md,md->m", centres, centres)
    return costs


def _choices(
    costs: np.ndarray, waiting: np.ndarray, columns: np.ndarray, prices: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the cheapest open column of each waiting row, and the additional cost of its second choice."""
    preferred = np.empty(len(waiting), np.int64)
    margin = np.zeros(len(waiting), costs.dtype)
    for start in range(0, len(waiting), CHUNK):
        part = slice(start, start + CHUNK)
        all_open = len(columns) == costs.shape[1]
        total = costs[waiting[part]] if all_open else costs[np.ix_(waiting[part], columns)]
        total = total + prices
        best = total.argmin(axis=1)
        preferred[part] = columns[best]
        if len(columns) > 1:
            each = np.arange(len(total))
            lowest = total[each, best]
            total[each, best] = np.inf
            margin[part] = total.min(axis=1) - lowest
    return preferred, margin


def _prices(costs: np.ndarray, seed: int) -> np.ndarray:
    """Return prices of the columns [m] with which all columns are preferred about equally often.

    Prices are computed by Sinkhorn iterations with decreasing entropy: a softmax distributes each row over the columns,
    and the price of columns that receive more than their share rises.
    """
    count, columns = costs.shape
    if count > PRICE_SAMPLE:
        costs = costs[np.random.default_rng(seed).choice(count, PRICE_SAMPLE, replace=False)]
    costs = costs - costs.min(axis=1, keepdims=True)
    prices = np.zeros(columns, dtype=costs.dtype)
    softness = float(costs.mean()) / 4  # temperature of the softmax; it decreases until the assignment is nearly hard
    if columns == 1 or softness <= 0 or not np.isfinite(softness):
        return prices
    for _ in range(PRICE_STAGES):
        for _ in range(PRICE_ROUNDS):
            # Shifted so that the largest exponent of a row is 0 and exp cannot overflow.
            shares = np.exp(-(costs + prices) / softness + (costs + prices).min(axis=1, keepdims=True) / softness)
            shares /= shares.sum(axis=1, keepdims=True)
            load = shares.sum(axis=0) * columns / len(costs)  # 1 for a column with exactly its share
            # Clamped, because the price of a column without any load would become minus infinity.
            prices += (softness * np.log(np.maximum(load, 1e-3))).astype(prices.dtype)
        softness /= 3
    return prices
