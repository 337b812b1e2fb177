"""Exact nearest neighbours by cosine, in blocks: the matrix queries × keys is never held in memory.

A first pass computes the products of a block of queries with all keys, in float32 or lower precision, with a bound ε on
their error (`products.py`). For k keys with large approximate products, the exact ones are computed in float64. If t is
the smallest of these, the k largest exact products are at least t, so a key whose approximate product is below t − ε is
not among them. All other keys are candidates, and their exact products are computed too. The result is therefore
bit-identical for all first passes.

The columns of a block are divided into groups, and the k keys are the largest of the k groups with the largest maxima.
Candidates are in groups whose maximum is large enough. One streaming pass for the maxima and a few small selections
thus replace a selection over the whole row. The columns of a group are adjacent, because reading a few scores from all
over a row takes as long as reading the whole row. Duplicate rows are searched only once.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from math import sqrt
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from threadpoolctl import threadpool_limits

from relexify.device import resolve_device
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
GROUPS_PER_MEMBER = 4
"""Number of groups, divided by k and by the number of columns in a group. This affects only the speed."""
PAIRS, GROUPS = 128, 16_384
"""Number of exact products, and of groups with candidates, that are computed at a time; more do not stay in caches."""
LARGE = 2**36
"""Number of multiplications from which torch is used: a few seconds of work, more than importing it."""
TRIAL_QUERIES = 64
"""Number of queries that low precision is tried with. If all vectors are similar, it leaves all keys as candidates and
may take 30 times as long. With fewer queries, products in float32 would be slower than in a whole block."""

GroupMaxima = Callable[[np.ndarray, int], np.ndarray]
"""Takes scores [b × m] and the number of columns in a group, and returns the largest score of every group."""


def nearest(queries: np.ndarray, keys: np.ndarray, k: int, *, device: str = "cpu") -> tuple[np.ndarray, np.ndarray]:
    """Find the k keys with the highest cosine for every query.

    Equal keys are ordered by index. A zero key has no direction and is never returned; a zero query has similarity 0 to
    all keys. If fewer than k keys are nonzero, fewer columns are returned.

    Args:
        queries: [n × d].
        keys: [m × d].
        k: Number of neighbours.
        device: `"cpu"`, `"cuda"` or another device of torch, or `"auto"` for a GPU if there is one.

    Returns:
        Indices [n × k] into the keys and similarities [n × k], nearest first.
    """
    if queries.ndim != 2 or keys.ndim != 2 or queries.shape[1] != keys.shape[1]:
        raise InputError(f"queries {queries.shape} and keys {keys.shape} must be matrices of one width")
    if k < 1:
        raise InputError(f"at least 1 neighbour is needed, not {k}")
    if (device := resolve_device(device)) != "cpu":
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
    queries: np.ndarray, keys: np.ndarray, k: int, *, device: str = "cpu"
) -> tuple[np.ndarray, np.ndarray]:
    """Find the k keys with the largest dot product for every query; zero keys are included.

    Queries and keys are read in float32; if their largest numbers are outside the range in which it multiplies without
    overflow, they are scaled by powers of two first. Products are computed in float64, and those that are equal in
    float32 are ordered by index.

    Args:
        queries: [n × d].
        keys: [m × d].
        k: Number of keys per query, at most m.
        device: `"cpu"`, `"cuda"` or another device of torch, or `"auto"` for a GPU if there is one.

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
    if (device := resolve_device(device)) != "cpu":
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
        indices[rows], similarities[rows] = _search_block(queries[rows], keys, k, product, group_maxima)
        return len(queries[rows])

    def try_product(product: Product) -> tuple[float, list[np.ndarray]]:
        product(queries[:1])  # so that the preparation, which each thread does once, is not timed
        start = time.thread_time()
        result = _search_block(queries[: min(TRIAL_QUERIES, size)], keys, k, product, group_maxima)
        return time.thread_time() - start, [*result]

    is_large = len(queries) * keys.size >= LARGE
    if is_large:
        import torch  # noqa: F401  (not in a worker, whose limit of threads would not apply to it)
    group_maxima = _torch_maxima if is_large else _numpy_maxima
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
        if is_large and is_affordable and (integers := int8_product(keys)):
            # Compare both on a few queries: the speed of integers depends on the CPU, and the number of candidates that
            # they leave depends on the vectors. This also tests that torch computes what `products.py` assumes.
            slow, expected = pool.submit(try_product, product).result()
            fast, result = pool.submit(try_product, integers).result()
            if fast < slow and all(map(np.array_equal, result, expected)):
                product = integers
        for done in pool.map(partial(search_block, product=product), range(0, len(queries), size)):
            advance(done)
    return indices, similarities


def _search_block(
    queries: np.ndarray, keys: np.ndarray, k: int, product: Product, group_maxima: GroupMaxima
) -> tuple[np.ndarray, np.ndarray]:
    """Return the columns and the values of the k largest products of every query, in order."""
    is_zero = ~queries.any(axis=1)
    if is_zero.any():  # all products of a zero query are equal, so the first keys are returned, in order
        best, values = np.tile(np.arange(k), (len(queries), 1)), np.zeros((len(queries), k), dtype=np.float32)
        if not is_zero.all():
            best[~is_zero], values[~is_zero] = _search_block(queries[~is_zero], keys, k, product, group_maxima)
        return best, values
    scores, errors, factors = product(queries)
    size = _group_size(len(keys), k)
    maxima = group_maxima(scores, size)
    likely, likely_scores = _largest_of_groups(scores, maxima, size, k)
    every_row = np.arange(len(queries))
    least = _exact_products(queries, keys, every_row.repeat(k), likely.reshape(-1)).reshape(-1, k).min(axis=1)
    # The likely keys are candidates themselves, also for a product that is tried and does not keep its bound.
    lowest = np.minimum(least * factors - errors, likely_scores.min(axis=1))
    rows, columns = _candidates(scores, maxima, size, lowest)
    exact = _exact_products(queries, keys, rows, columns).astype(np.float32)
    order = np.lexsort((-exact, rows))  # ties in order of the columns
    largest = order[np.searchsorted(rows, every_row)[:, None] + np.arange(k)]  # the first k of every row
    return columns[largest], exact[largest]


def _exact_products(queries: np.ndarray, keys: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Return the product of every pair of a query and a key, in float64 [p].

    Args:
        queries: [b × d].
        keys: [m × d].
        rows: The query of every pair [p].
        columns: Its key [p].
    """
    wide, products = queries.astype(np.float64), np.empty(len(rows))
    for start in range(0, len(rows), PAIRS):
        pairs = slice(start, start + PAIRS)
        np.vecdot(keys.take(columns[pairs], axis=0).astype(np.float64), wide[rows[pairs]], out=products[pairs])
    return products


def _group_size(keys: int, k: int) -> int:
    """Return the number of columns in a group; there are at least k groups."""
    # Twice as many groups have about half as many members to select from.
    return int(np.clip(sqrt(keys / (GROUPS_PER_MEMBER * k)), 1, keys // k))


def _numpy_maxima(scores: np.ndarray, size: int) -> np.ndarray:
    """Return the largest score of every group of columns, [b × groups]; the last group may be smaller."""
    maxima: np.ndarray = np.maximum.reduceat(scores, np.arange(0, scores.shape[1], size), axis=1)
    return maxima


def _torch_maxima(scores: np.ndarray, size: int) -> np.ndarray:
    """Return the same as `_numpy_maxima`, up to four times as fast."""
    import torch

    tensor, whole = torch.from_numpy(scores), scores.shape[1] // size * size
    maxima = torch.empty(len(scores), -(-scores.shape[1] // size), dtype=tensor.dtype)
    torch.amax(tensor[:, :whole].reshape(len(scores), -1, size), dim=2, out=maxima[:, : whole // size])
    if whole < scores.shape[1]:
        torch.amax(tensor[:, whole:], dim=1, out=maxima[:, -1])
    return maxima.numpy()


def _largest_of_groups(scores: np.ndarray, maxima: np.ndarray, size: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return column and value of the largest score in each of the k groups with the largest maxima, [b × k] each."""
    groups = maxima.shape[1]
    group_of = np.argpartition(maxima, groups - k, axis=1)[:, groups - k :]
    largest = np.take_along_axis(maxima, group_of, axis=1)
    first, values = _group_members(scores, size, np.arange(len(scores)).repeat(k), group_of.reshape(-1))
    # The last column with this value, as columns that are not members come first.
    column = first + size - 1 - (values == largest.reshape(-1, 1))[:, ::-1].argmax(axis=1)
    return column.reshape(group_of.shape), largest


def _candidates(scores: np.ndarray, maxima: np.ndarray, size: int, lowest: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and columns of all scores that are at least the lowest of their row.

    Pairs are sorted by row, then by column.

    Args:
        scores: [b × m].
        maxima: The largest score of every group [b × groups].
        size: Number of columns in a group.
        lowest: For every row [b].
    """
    lowest = _as_type_of_scores(lowest, scores.dtype)
    rows, group_of = np.nonzero(maxima >= lowest[:, None])
    all_rows, all_columns = [rows[:0]], [group_of[:0]]
    for start in range(0, len(rows), GROUPS):
        part, part_groups = rows[start : start + GROUPS], group_of[start : start + GROUPS]
        first, values = _group_members(scores, size, part, part_groups)
        found, position = np.divmod(np.flatnonzero(values >= lowest[part, None]), size)
        columns = first[found] + position
        is_member = columns >= part_groups[found] * size
        all_rows.append(part[found[is_member]])
        all_columns.append(columns[is_member])
    return np.concatenate(all_rows), np.concatenate(all_columns)


def _group_members(
    scores: np.ndarray, size: int, rows: np.ndarray, group_of: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the first columns of some groups [n], and the scores from there on [n × size].

    For the last group, which may be smaller, they start with columns before it, which are not members.

    Args:
        scores: [b × m].
        size: Number of columns in a group.
        rows: The row of every group [n].
        group_of: Its number [n].
    """
    keys = scores.shape[1]
    first = np.minimum(group_of * size, keys - size)
    return first, sliding_window_view(scores.reshape(-1), size)[rows * keys + first]


def _as_type_of_scores(limits: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    """Return limits in the type of the scores, with which they are compared faster than in float64.

    No score that is at least the limit is below the returned one.
    """
    if dtype == np.int32:
        integers = np.iinfo(np.int32)
        above: np.ndarray = np.clip(np.ceil(limits), integers.min, integers.max).astype(np.int32)
        return above
    below: np.ndarray = np.nextafter(limits.astype(np.float32), np.float32(-np.inf))
    return below


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
    # Keys of different groups that are equally similar are ordered by index too.
    for row in np.flatnonzero((similarities[:, 1:] == similarities[:, :-1]).any(axis=1)):
        of_row = zip(first[groups[row]], sizes[row], strict=True)
        found = np.concatenate([members[start : start + size] for start, size in of_row])
        order = np.lexsort((found, -similarities[row].repeat(sizes[row])))[:columns]
        keys[row], values[row] = found[order], similarities[row].repeat(sizes[row])[order]
    return keys, values


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
