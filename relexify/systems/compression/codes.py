"""Codes of tokens: k digits, where digit i selects a row of table i.

    digits     Algorithm 1 of the paper: the digits of the token's index in base M
    random     distinct random codes, a baseline that uses all rows of all tables
    clustered  Algorithm 2: recursive k-means, so that tokens with similar embeddings share digits

No two tokens may have the same code, because the model could not distinguish them.

**Clustered codes.** The first digit is the cluster of a token's pretrained row. The second digit is its cluster among
the tokens with the same first digit (a cell), and so on. The last digit only distinguishes the tokens of a cell. The
numbering of the clusters inside a cell is arbitrary, and the paper draws the last digit at random. Here, numbers are
chosen to minimise the reconstruction error: all cells share the rows of table i, so each cluster gets the number of the
table row that is closest to its own columns (a small assignment problem per cell). Numbers and rows are optimised
alternately.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
from threadpoolctl import threadpool_limits

from relexify.errors import InputError, importing
from relexify.neighbours import available_cores
from relexify.progress import track
from relexify.systems.compression.equal_size import bounded_labels, equal_size_labels, squared_distances
from relexify.systems.compression.tables import block_means, split_width

if TYPE_CHECKING:
    from sklearn.cluster import KMeans

    from relexify.systems.compression.options import Compression

__all__ = [
    "check_codes",
    "clustered_codes",
    "codes_of",
    "digit_codes",
    "random_codes",
    "smallest_base",
    "table_sizes",
]

MAX_NUMBERED_CODES = 2**62
"""More codes than this cannot be numbered with 64 bits."""

# k-means
LLOYD_ROWS = 20_000
"""With more rows than this, k-means uses mini-batches."""
MINI_BATCH = 4_096
MINI_BATCH_EPOCHS = 5
LLOYD_ITERATIONS = 20

# Numbering of clusters
NUMBERING_ROUNDS = 3
"""Number of rounds in which the numbers of clusters and the rows of a table are fitted to each other."""
EXACT_ASSIGNMENT = 1_000_000
"""The largest cost matrix for which the assignment is solved exactly; for a larger one, it is approximated."""


def codes_of(rows: np.ndarray, options: Compression) -> np.ndarray:
    """Return codes for the tokens of an embedding, as the options specify.

    Args:
        rows: The embedding [N × d].
        options: The type of codes.

    Returns:
        One distinct code per token [N × k].

    Raises:
        InputError: There are more tokens than codes, or a row is not finite.
        MissingExtra: scikit-learn is not installed, which clustering needs.
    """
    if options.codes == "digits":
        return digit_codes(len(rows), options.k, options.clusters)
    if options.codes == "random":
        return random_codes(len(rows), options.k, options.clusters, seed=options.seed)
    return clustered_codes(
        rows,
        options.k,
        options.clusters,
        equal_size=options.equal_size,
        matched=options.matched,
        seed=options.seed,
    )


def smallest_base(tokens: int, k: int) -> int:
    """Return M = ⌈N^(1/k)⌉, the smallest number of rows per table with which N tokens can have distinct codes.

    It is computed by integer bisection, because a floating-point root may be off by one.

    Args:
        tokens: N.
        k: Number of digits of a code.

    Raises:
        InputError: The number of tokens or of digits is less than one.
    """
    if tokens < 1 or k < 1:
        raise InputError(f"{tokens} tokens cannot be written with {k} digits: give at least one of each")
    low, high = 1, tokens
    while low < high:
        middle = (low + high) // 2
        if middle**k >= tokens:
            high = middle
        else:
            low = middle + 1
    return low


def digit_codes(tokens: int, k: int, base: int | Sequence[int] | None = None) -> np.ndarray:
    """Return the digits of every token's index in base M, lowest digit first (Algorithm 1).

    f_i(n) = ⌊n / M^(i-1)⌋ mod M. The paper has "mod M^k" here, but states that the k-th digit is meant.

    Args:
        tokens: N.
        k: Number of digits of a code.
        base: M, or one base per digit; by default the smallest sufficient one.

    Returns:
        Codes [N × k], int32.

    Raises:
        InputError: There are fewer codes than tokens.
    """
    if base is None:
        base = smallest_base(tokens, k)
    bases = [base] * k if isinstance(base, int) else list(base)
    _check_capacity(tokens, bases)
    return _digits(np.arange(tokens), bases)


def random_codes(tokens: int, k: int, base: int | None = None, *, seed: int = 0) -> np.ndarray:
    """Return a distinct code for every token, drawn from all possible codes.

    If tables have more rows than necessary, `digit_codes` leaves most rows of the last table unused; random codes do
    not.

    Args:
        tokens: N.
        k: Number of digits of a code.
        base: M; by default the smallest sufficient one.
        seed: Random seed.

    Returns:
        Codes [N × k], int32.

    Raises:
        InputError: There are fewer codes than tokens.
    """
    if base is None:
        base = smallest_base(tokens, k)
    _check_capacity(tokens, [base] * k)
    draw = np.random.default_rng(seed)
    if base**k > MAX_NUMBERED_CODES:  # with this many codes, two equal draws are practically impossible
        return check_codes(draw.integers(0, base, (tokens, k)), tokens)
    return _digits(draw.choice(base**k, tokens, replace=False), [base] * k)


def check_codes(codes: np.ndarray, tokens: int) -> np.ndarray:
    """Validate codes, and return them as int32 [N × k].

    Raises:
        InputError: The codes are not a matrix of digits with one row per token, or two tokens have the same code.
    """
    codes = np.asarray(codes)
    if codes.ndim != 2 or len(codes) != tokens or not codes.shape[1] or codes.dtype.kind not in "iu":
        raise InputError(f"the codes are {codes.dtype} {list(codes.shape)}: expected whole numbers [{tokens} × k]")
    if tokens and codes.min() < 0:
        raise InputError("a code has a negative digit: digits are rows of tables, from 0 on")
    repeated = tokens - len(np.unique(codes, axis=0))
    if repeated:
        raise InputError(f"{repeated} tokens have the code of another token: every token needs a distinct code")
    return np.ascontiguousarray(codes, dtype=np.int32)


def table_sizes(codes: np.ndarray, base: int = 1) -> list[int]:
    """Return the number of rows of each table: as many as its digits require, and at least `base`."""
    return [max(base, int(each)) for each in codes.max(axis=0, initial=0) + 1]


def clustered_codes(
    rows: np.ndarray,
    k: int,
    clusters: int | None = None,
    *,
    equal_size: bool = False,
    matched: bool = True,
    seed: int = 0,
) -> np.ndarray:
    """Return codes of tokens by recursive k-means on their pretrained rows (Algorithm 2).

    Args:
        rows: Embeddings of a pretrained model [N × d].
        k: Number of digits of a code.
        clusters: M, the number of clusters of every k-means; by default ⌈N^(1/k)⌉.
        equal_size: Limit the size of clusters, so that M rows suffice for every table. Otherwise, the number of rows of
            the last table is the number of tokens in the largest cell.
        matched: Choose the numbers of clusters, and the last digits, so that the tables fit all cells; if false, they
            are random, as in the paper.
        seed: Random seed of k-means and of random numbers.

    Returns:
        One distinct code per token [N × k], int32.

    Raises:
        InputError: M^k < N with clusters of limited size, or a row is not finite.
        MissingExtra: scikit-learn is not installed.
    """
    rows = np.ascontiguousarray(rows, dtype=np.float32)
    tokens = len(rows)
    if clusters is None:
        clusters = smallest_base(tokens, k)
    if equal_size or k == 1:
        _check_capacity(tokens, [clusters] * k)
    elif clusters < 1:
        raise InputError(f"{clusters} clusters are too few: give 1 or more")
    if not np.isfinite(rows).all():
        raise InputError("the embedding has values that are not finite, so that it cannot be clustered")
    edges = np.cumsum([0, *split_width(rows.shape[1], k)])
    codes = np.zeros((tokens, k), dtype=np.int64)
    cell_of_token = np.zeros(tokens, dtype=np.int64)  # tokens with equal digits up to here are in the same cell
    with track("clustering tokens", tokens * k) as advance, threadpool_limits(1), warnings.catch_warnings():
        # If rows are equal, k-means warns that it finds fewer clusters than requested, which is harmless.
        warnings.filterwarnings("ignore", module="sklearn")
        for level in range(k):
            is_last = level == k - 1
            order = np.argsort(cell_of_token, kind="stable")
            cells = np.split(order, np.flatnonzero(np.diff(cell_of_token[order])) + 1)  # the tokens of each cell
            digits = codes[:, level]  # a view, which is written to below
            # On the last level, each token of a cell is its own cluster.
            labels = _cluster_cells(rows, cells, tokens if is_last else clusters, equal_size, seed + level)
            for cell, cell_labels in zip(cells, labels, strict=True):
                digits[cell] = cell_labels
                advance(len(cell))
            count = max(map(len, cells)) if is_last and not equal_size else clusters
            # The first level is a single cell, so its numbers cannot conflict with those of other cells.
            if matched and (level > 0 or k == 1):
                _number_by_similarity(rows[:, edges[level] : edges[level + 1]], digits, cells, count, seed)
            elif level > 0:
                draw = np.random.default_rng(seed + level)
                for cell in cells:
                    digits[cell] = draw.permutation(count)[digits[cell]]
            split = np.stack([cell_of_token, digits], axis=1)
            cell_of_token = np.unique(split, axis=0, return_inverse=True)[1].ravel()
    return check_codes(codes, tokens)


def _check_capacity(tokens: int, bases: Sequence[int]) -> None:
    """Validate that tables have enough rows for N distinct codes.

    Raises:
        InputError: The product of the bases is less than N.
    """
    sufficient = smallest_base(tokens, len(bases))
    if min(bases) < 1 or math.prod(bases) < tokens:
        codes = math.prod(max(0, each) for each in bases)
        raise InputError(
            f"{len(bases)} tables of {', '.join(map(str, bases))} rows make {codes:,} codes, too few for {tokens:,} "
            f"tokens: give {sufficient} rows each or more, or more tables"
        )


def _digits(numbers: np.ndarray, bases: Sequence[int]) -> np.ndarray:
    codes = np.empty((len(numbers), len(bases)), dtype=np.int32)
    for position, base in enumerate(bases):
        numbers, codes[:, position] = np.divmod(numbers, base)
    return codes


def _cluster_cells(
    rows: np.ndarray, cells: list[np.ndarray], clusters: int, equal_size: bool, seed: int
) -> Iterator[np.ndarray]:
    """Yield the labels of every cell's rows; if a cell has no more rows than clusters, each row is its own cluster.

    Cells are clustered in parallel, each by a single thread: they are too small for several threads per cell.
    """

    def cluster(index: int) -> np.ndarray:
        cell_rows = rows[cells[index]]
        cell_seed = seed + 1_000 * index  # the stride keeps cells apart from the seeds 0, 1, 2, … of other runs
        if len(cell_rows) <= clusters:
            return np.arange(len(cell_rows))
        if clusters == 1:
            return np.zeros(len(cell_rows), dtype=np.int64)
        fitted = _k_means(cell_rows, clusters, cell_seed, start="k-means++")
        if equal_size:
            return equal_size_labels(cell_rows, fitted.cluster_centers_, seed=cell_seed)
        labels: np.ndarray = fitted.labels_
        return labels

    with ThreadPoolExecutor(available_cores()) as pool:
        yield from pool.map(cluster, range(len(cells)))


def _k_means(rows: np.ndarray, clusters: int, seed: int, *, start: str) -> KMeans:
    """Fit scikit-learn's k-means, on mini-batches if there are many rows."""
    with importing("scikit-learn", "clustering tokens", "evaluation"):
        from sklearn.cluster import KMeans, MiniBatchKMeans
    options: dict[str, Any] = {"n_clusters": clusters, "init": start, "n_init": 1, "random_state": seed % 2**32}
    if len(rows) <= LLOYD_ROWS:
        return KMeans(max_iter=LLOYD_ITERATIONS, **options).fit(rows)
    return MiniBatchKMeans(batch_size=MINI_BATCH, max_iter=MINI_BATCH_EPOCHS, **options).fit(rows)


def _number_by_similarity(
    block: np.ndarray, digits: np.ndarray, cells: list[np.ndarray], count: int, seed: int
) -> None:
    """Number the clusters of every cell by the table rows that they are most similar to, in place.

    Given the numbers, the best row of a table is the mean of the clusters with its number. Given the rows, the best
    numbers are the solution of an assignment problem for each cell. No step increases the error of the table.

    Args:
        block: The columns that belong to this table [N × d_i].
        digits: The labels inside the cells, which are replaced by numbers [N].
        cells: The tokens of each cell.
        count: Number of rows of the table.
        seed: Random seed of the initial rows.
    """
    from scipy.optimize import linear_sum_assignment

    sample = block[np.random.default_rng(seed).permutation(len(block))[:LLOYD_ROWS]]
    if count < len(sample):
        table = _k_means(sample, count, seed, start="random").cluster_centers_
    else:
        table = np.resize(sample, (count, block.shape[1]))
    clusters = [_cluster_means(block[cell], digits[cell]) for cell in cells]
    for _ in range(NUMBERING_ROUNDS):
        for cell, (means, sizes, cluster_of_token) in zip(cells, clusters, strict=True):
            costs = squared_distances(means, table) * sizes[:, None]  # weighted by the number of tokens
            # Assign a distinct row of the table to every cluster, at the lowest total cost or approximately so.
            exact = costs.size <= EXACT_ASSIGNMENT
            numbers = linear_sum_assignment(costs)[1] if exact else bounded_labels(costs, 1)
            digits[cell] = numbers[cluster_of_token]
        table = block_means(block, digits, count, missing=table)


def _cluster_means(block: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return mean columns of a cell's clusters [m × d_i], their sizes [m], and the cluster of each token [n]."""
    clusters, cluster_of_token = np.unique(labels, return_inverse=True)
    if len(clusters) == len(labels):  # every token is a cluster
        return block[np.argsort(cluster_of_token)], np.ones(len(labels), np.float32), cluster_of_token
    sizes = np.bincount(cluster_of_token)
    return block_means(block, cluster_of_token, len(clusters)), sizes.astype(np.float32), cluster_of_token
