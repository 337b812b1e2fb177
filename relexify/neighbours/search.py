"""Exact nearest neighbours by cosine, in blocks: the matrix queries × keys is never held in memory.

A first pass computes the products of a block of queries with all keys, in float32 or lower precision, with a bound ε on
their error (`products.py`). For k keys with large approximate products, the exact ones are computed in float64. If t is
the smallest of these, the k largest exact products are at least t, so a key whose approximate product is below t − ε is
not among them. All other keys are candidates, and their exact products are computed too. The result is therefore
bit-identical for all first passes.

The columns of a block are divided into groups, and the k keys are the largest of the k groups with the largest maxima.
Candidates are in groups whose maximum is large enough. One streaming pass for the maxima and a few small selections
thus replace a selection over the whole row. Duplicate rows are searched only once.
"""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from math import sqrt
from typing import Literal

import numpy as np
from threadpoolctl import threadpool_limits

from relexify.errors import InputError
from relexify.neighbours.products import Product, float32_product, int8_product
from relexify.progress import track

__all__ = ["available_cores", "largest_products", "nearest", "nearest_others", "normalise_rows"]

BLOCK_BYTES = 48 << 20
"""Maximum size of the similarities that one thread holds at a time. Smaller blocks stay in caches, and larger ones need
fewer passes over the keys; twice as much took 1.15 times as long on two cores of a Xeon."""
LARGEST_EXPONENT = 40
"""Queries and keys with numbers beyond 2 to this power, or all below its inverse, are scaled before the search: float32
overflows at 2^128, and has fewer digits below 2^-126."""
COPIED_BYTES = 96 << 20
"""Maximum size of the copies of the keys that 8-bit products may take for every thread."""
EXPECTED_CANDIDATES = 4
"""Expected number of candidates for each of the k neighbours. This affects only the speed."""
LARGE = 2**36
"""Number of multiplications from which low precision is tried: a few seconds of work, more than importing torch."""
TRIAL_QUERIES = 64
"""Number of queries that low precision is tried with. If all vectors are similar, it leaves all keys as candidates and
may take 30 times as long. With fewer queries, products in float32 would be slower than in a whole block."""


def nearest(
    queries: np.ndarray, keys: np.ndarray, k: int, *, device: Literal["cpu", "cuda"] | str = "cpu"
) -> tuple[np.ndarray, np.ndarray]:
    """Find the k keys with the highest cosine for every query.

    Equal keys are ordered by index. A zero key has no direction and is never returned; a zero query has similarity 0 to
    all keys. If fewer than k keys are nonzero, fewer columns are returned.

    Args:
        queries: [n × d].
        keys: [m × d].
        k: Number of neighbours.
        device: `"cpu"`, or a torch device such as `"cuda"`.

    Returns:
        Indices [n × k] into the keys and similarities [n × k], nearest first.
    """
    if queries.ndim != 2 or keys.ndim != 2 or queries.shape[1] != keys.shape[1]:
        raise InputError(f"queries {queries.shape} and keys {keys.shape} must be matrices of one width")
    if k < 1:
        raise InputError(f"at least 1 neighbour is needed, not {k}")
    if device != "cpu":
        from relexify.neighbours.accelerator import nearest_on

        return nearest_on(device, queries, keys, k)
    queries, keys = normalise_rows(_as_float32(queries, "queries")), normalise_rows(_as_float32(keys, "keys"))
    query_rows, query_of = _distinct(queries)
    key_rows, key_of = _distinct(keys)
    key_rows = key_rows[np.any(keys[key_rows] != 0, axis=1)]
    if not len(key_rows):
        raise InputError("every key is a zero vector: give at least one vector that is not zero")
    columns, similarities = _search_cpu(queries[query_rows], keys[key_rows], min(k, len(key_rows)))
    return _expand(key_rows[columns][query_of], similarities[query_of], key_of, key_rows, k)


def nearest_others(queries: np.ndarray, keys: np.ndarray, k: int, *, own: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Find the k nearest keys of queries that are keys themselves, excluding each query's own key.

    Args:
        queries: [n × d].
        keys: [m × d].
        k: Number of neighbours.
        own: The index of every query among the keys [n]; for a query that is not a key, an index greater than theirs.

    Returns:
        As `nearest`; no columns if only one key is nonzero.
    """
    indices, similarities = nearest(queries, keys, k + 1)
    # Remove exactly one neighbour per row: the query itself, or else the last one. The query itself is missing if it is
    # not a key, or if more than k equal keys come before it.
    removed = indices == own[:, None]
    removed[~removed.any(axis=1), -1] = True
    shape = (len(indices), indices.shape[1] - 1)
    return indices[~removed].reshape(shape), similarities[~removed].reshape(shape)


def largest_products(
    queries: np.ndarray, keys: np.ndarray, k: int, *, device: Literal["cpu", "cuda"] | str = "cpu"
) -> tuple[np.ndarray, np.ndarray]:
    """Find the k keys with the largest dot product for every query; zero keys are included.

    Numbers of any size can be given. The order of products is that of float32, in which they are returned, without its
    limits: products below its smallest number are returned as 0, but found in order.

    Args:
        queries: [n × d].
        keys: [m × d].
        k: Number of keys per query, at most m.
        device: `"cpu"`, or a torch device such as `"cuda"`.

    Returns:
        Indices [n × k] into the keys and products [n × k], largest first.

    Raises:
        InputError: Sizes do not fit, or a number is NaN or infinite, or a product overflows float32, or numbers of one
            matrix are so different in size that float32 cannot hold them together.
    """
    if queries.ndim != 2 or keys.ndim != 2 or queries.shape[1] != keys.shape[1]:
        raise InputError(f"queries {queries.shape} and keys {keys.shape} must be matrices of one width")
    if not 1 <= k <= len(keys):
        raise InputError(f"{k} of {len(keys)} keys cannot be found: request 1 to {len(keys)}")
    # The largest number of each query, and of all keys: products of one query must be comparable.
    queries, exponents = _scaled(queries, "queries", axis=1)
    keys, exponent = _scaled(keys, "keys", axis=None)
    if device != "cpu":
        from relexify.neighbours.accelerator import largest_on

        columns, products = largest_on(device, queries, keys, k)
    else:
        columns, products = _search_cpu(_as_float32(queries, "queries"), _as_float32(keys, "keys"), k)
    return columns, _restored(products, exponents + exponent)


def normalise_rows(matrix: np.ndarray) -> np.ndarray:
    """Scale rows to unit length, float32 [n × d]; rows shorter than float32's smallest normal number become zero."""
    rows = np.asarray(matrix, dtype=np.float32)
    lengths = np.sqrt(np.einsum("nd,nd->n", rows, rows, dtype=np.float64))
    # Shorter rows have few significant digits, and for the shortest ones, 1 / length is infinite in float32.
    scale = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths >= np.finfo(np.float32).tiny)
    scaled: np.ndarray = rows * scale[:, None].astype(np.float32)
    # For the longest rows, it is 1 / length that has few significant digits in float32.
    longest = np.flatnonzero((scale < np.finfo(np.float32).tiny) & (lengths < np.inf) & (scale > 0))
    scaled[longest] = rows[longest] * scale[longest, None]
    return scaled


def _scaled(matrix: np.ndarray, name: str, *, axis: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Return a matrix whose products fit into float32, and the exponents e such that matrix · 2^e is the one given.

    Matrices of ordinary numbers are returned unchanged. Powers of two change no digits.

    Args:
        matrix: [n × d].
        name: What it contains, for an error.
        axis: 1 for an exponent of each row [n × 1], None for a single one [1 × 1].
    """
    highest, lowest = (extreme(axis=axis, keepdims=True, initial=0) for extreme in (matrix.max, matrix.min))
    largest = np.maximum(highest, -lowest)
    powers = np.frexp(largest)[1]
    exponents = powers - np.clip(powers, -LARGEST_EXPONENT, LARGEST_EXPONENT)
    exponents[~np.isfinite(largest)] = 0  # rejected later
    if not exponents.any():
        return matrix, exponents
    scaled = np.ldexp(matrix, -exponents)
    lost = np.any((np.abs(scaled) < np.finfo(np.float32).tiny) & (matrix != 0) & (exponents > 0), axis=1)
    if lost.any():
        raise InputError(
            f"{np.count_nonzero(lost):,} of {len(matrix):,} {name} have numbers that are too small beside others of "
            f"up to {largest.max():.3g}: leave one of the two out"
        )
    return scaled, exponents


def _restored(products: np.ndarray, exponents: np.ndarray) -> np.ndarray:
    """Return products · 2^exponents in float32."""
    if not exponents.any():
        return products
    wide: np.ndarray = np.ldexp(products.astype(np.float64), exponents)
    if np.any(np.abs(wide) > np.finfo(np.float32).max):
        raise InputError(
            f"products of up to {np.abs(wide).max():.3g} are infinite in float32: scale queries or keys down"
        )
    return wide.astype(np.float32)


def _as_float32(matrix: np.ndarray, name: str) -> np.ndarray:
    """Return a contiguous matrix in float32; reject rows that are not finite."""
    with np.errstate(over="ignore"):  # numbers that overflow to infinity are reported below
        rows = np.ascontiguousarray(matrix, dtype=np.float32)
    nonfinite = len(rows) - np.count_nonzero(np.isfinite(rows).all(axis=1))
    if nonfinite:
        raise InputError(
            f"{nonfinite:,} of {len(rows):,} {name} contain NaN or numbers that are infinite in float32: leave them out"
        )
    return rows


def _search_cpu(queries: np.ndarray, keys: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Search block by block, with one thread per core, each of which computes single-threaded products."""
    size = int(np.clip(BLOCK_BYTES // (4 * len(keys)), 16, 512))
    indices = np.empty((len(queries), k), dtype=np.int64)
    similarities = np.empty((len(queries), k), dtype=np.float32)

    def search_block(start: int, product: Product) -> int:
        rows = slice(start, start + size)
        indices[rows], similarities[rows] = _search_block(queries[rows], keys, k, product)
        return len(queries[rows])

    def try_product(product: Product) -> tuple[float, list[np.ndarray]]:
        product(queries[:1])  # so that the preparation, which each thread does once, is not timed
        start = time.thread_time()
        result = _search_block(queries[: min(TRIAL_QUERIES, size)], keys, k, product)
        return time.thread_time() - start, [*result]

    product, cores = float32_product(keys), available_cores()
    # In 8 bits, torch holds up to two copies of the keys for every thread. They must not take more memory than the keys
    # or the blocks.
    is_affordable = 2 * cores * keys.size <= max(keys.nbytes, cores * COPIED_BYTES)
    with (
        track("finding nearest neighbours", len(queries)) as advance,
        threadpool_limits(limits=1, user_api="blas"),
        # OpenMP's number of threads is a setting of each calling thread, so every worker sets it.
        ThreadPoolExecutor(cores, initializer=threadpool_limits, initargs=(1, "openmp")) as pool,
    ):
        if len(queries) * keys.size >= LARGE and is_affordable and (integers := int8_product(keys)):
            # Compare both on a few queries: the speed of integers depends on the CPU, and the number of candidates that
            # they leave depends on the vectors. This also tests that torch computes what `products.py` assumes.
            slow, expected = pool.submit(try_product, product).result()
            fast, result = pool.submit(try_product, integers).result()
            if fast < slow and all(map(np.array_equal, result, expected)):
                product = integers
        for done in pool.map(partial(search_block, product=product), range(0, len(queries), size)):
            advance(done)
    return indices, similarities


def _search_block(queries: np.ndarray, keys: np.ndarray, k: int, product: Product) -> tuple[np.ndarray, np.ndarray]:
    """Return the columns and the values of the k largest products of every query, in order."""
    scores, errors, factors = product(queries)
    maxima = _group_maxima(scores, k)
    likely, likely_scores = _largest_of_groups(scores, maxima, k)
    least = np.array([_exact_products(queries[row], keys, likely[row]).min() for row in range(len(queries))])
    # The likely keys are candidates themselves, also for a product that is tried and does not keep its bound.
    lowest = np.minimum(least * factors - errors, likely_scores.min(axis=1))
    is_zero = np.all(queries == 0, axis=1)
    lowest[is_zero] = np.inf  # all products of a zero query are equal, so it needs no candidates
    rows, columns = _candidates(scores, maxima, lowest)
    best = np.empty((len(queries), k), dtype=np.int64)
    values = np.empty((len(queries), k), dtype=np.float32)
    ends = np.searchsorted(rows, np.arange(1, len(queries) + 1))
    for row, (start, end) in enumerate(pairwise((0, *ends))):
        in_row = np.arange(k) if is_zero[row] else columns[start:end]
        exact = _exact_products(queries[row], keys, in_row).astype(np.float32)
        order = np.argsort(-exact, kind="stable")[:k]  # ties in order of the columns
        best[row], values[row] = in_row[order], exact[order]
    return best, values


def _exact_products(query: np.ndarray, keys: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Return the products of a query with some keys, in float64."""
    wide = query.astype(np.float64)
    blocks = (columns[first : first + 4096] for first in range(0, len(columns), 4096))
    return np.concatenate([keys.take(block, axis=0).astype(np.float64) @ wide for block in blocks])


def _group_maxima(scores: np.ndarray, k: int) -> np.ndarray:
    """Return the largest score of every group of columns, [b × groups]; there are at least k groups.

    Group g contains the columns g, g + groups, g + 2 · groups, …, so that adjacent maxima are computed from adjacent
    scores in memory.
    """
    keys = scores.shape[1]
    # This number of groups makes the selection among the maxima and that among the members of groups equally small.
    groups = min(max(k, round(sqrt(keys * k * EXPECTED_CANDIDATES))), keys)
    whole = keys - keys % groups
    maxima: np.ndarray = scores[:, :whole].reshape(len(scores), -1, groups).max(axis=1)
    rest = scores[:, whole:]  # the first groups have one more member than the others
    np.maximum(maxima[:, : rest.shape[1]], rest, out=maxima[:, : rest.shape[1]])
    return maxima


def _largest_of_groups(scores: np.ndarray, maxima: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return column and value of the largest score in each of the k groups with the largest maxima, [b × k] each."""
    keys, groups = scores.shape[1], maxima.shape[1]
    group_of = np.argpartition(maxima, groups - k, axis=1)[:, groups - k :]
    first = np.arange(len(scores))[:, None] * keys + group_of
    largest = np.take_along_axis(maxima, group_of, axis=1)
    columns = group_of.copy()
    for start in range(0, keys, groups):
        # Some groups have no member in the last step; the number that is read in its place is ignored.
        is_largest = (scores.take(first + start, mode="clip") == largest) & (group_of < keys - start)
        columns[is_largest] = group_of[is_largest] + start
    return columns, largest


def _candidates(scores: np.ndarray, maxima: np.ndarray, lowest: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and columns of all scores that are at least the lowest of their row.

    Pairs are sorted by row, then by column.

    Args:
        scores: [b × m].
        maxima: The largest score of every group [b × groups].
        lowest: For every row [b].
    """
    keys, groups = scores.shape[1], maxima.shape[1]
    lowest = np.nextafter(lowest.astype(np.float32), np.float32(-np.inf))  # compared faster than float64
    rows, group_of = np.nonzero(maxima >= lowest[:, None])
    limits, first = lowest[rows], rows * keys + group_of
    candidate_rows, candidate_columns = [], []
    for start in range(0, keys, groups):
        members = scores.take(first + start, mode="clip")
        large = np.flatnonzero((members >= limits) & (group_of < keys - start))
        candidate_rows.append(rows[large])
        candidate_columns.append(group_of[large] + start)
    all_rows, all_columns = np.concatenate(candidate_rows), np.concatenate(candidate_columns)
    by_row = np.argsort(all_rows, kind="stable")
    return all_rows[by_row], all_columns[by_row]


def _distinct(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first index of every distinct row, in ascending order, and each row's position among these, [n].

    Rows are compared by a random linear hash modulo 2^64, because sorting whole rows is slow.
    """
    bits = rows.view(np.uint32)
    odd = np.random.default_rng(0).integers(0, 1 << 63, rows.shape[1], dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    hashes = np.concatenate([bits[i : i + 4096] @ odd for i in range(0, len(bits), 4096)] or [np.zeros(0, np.uint64)])
    _, first, group_of = np.unique(hashes, return_index=True, return_inverse=True)
    if not np.array_equal(bits[first[group_of]], bits):  # two different rows have the same hash: treat all as distinct
        return np.arange(len(rows)), np.arange(len(rows))
    order = np.argsort(first)
    position = np.empty_like(order)
    position[order] = np.arange(len(order))
    return first[order], position[group_of]


def _expand(
    neighbours: np.ndarray, similarities: np.ndarray, key_of: np.ndarray, key_rows: np.ndarray, k: int
) -> tuple[np.ndarray, np.ndarray]:
    """Replace every distinct key by all keys equal to it, and keep the first k, [n × k].

    Args:
        neighbours: For each query, its nearest distinct keys, as indices into all keys, [n × ≤k].
        similarities: Their similarities.
        key_of: For each key, the position of its distinct key [m].
        key_rows: The distinct keys that are nonzero.
        k: Number of neighbours.
    """
    if len(key_rows) == len(key_of):
        return neighbours, similarities
    members = np.argsort(key_of, kind="stable")  # all keys, equal ones adjacent and in ascending order
    group_sizes = np.bincount(key_of)  # number of equal keys in each group
    first = np.concatenate([[0], np.cumsum(group_sizes)[:-1]])  # where the members of each group start
    groups = key_of[neighbours]
    sizes = np.minimum(group_sizes[groups], k)
    # Every query has the same number of columns: if one query finds fewer than k keys, these are all nonzero keys, and
    # every other query finds the same number.
    columns = min(k, int(sizes[0].sum())) if len(sizes) else k
    # The group at position j of a row fills its columns starts[j] to ends[j]; fill one column of all rows at a time.
    ends = np.cumsum(sizes, axis=1)
    starts = ends - sizes
    keys = np.empty((len(neighbours), columns), dtype=np.int64)
    values = np.empty((len(neighbours), columns), dtype=np.float32)
    rows = np.arange(len(neighbours))
    for column in range(columns):
        position = (ends <= column).sum(axis=1)  # the position of the group that fills this column
        group, offset = groups[rows, position], column - starts[rows, position]
        keys[:, column] = members[first[group] + offset]
        values[:, column] = similarities[rows, position]
    return keys, values


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
