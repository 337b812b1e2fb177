"""Exact nearest neighbours by cosine, in blocks: the matrix queries × keys is never held in memory.

A block of similarities is one matrix product. Its columns are divided into groups; the k largest values of a row lie in
the k groups with the largest maxima, so one streaming pass of `maximum` and two small exact selections replace a
selection over the whole row. Rows that occur several times are searched once.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from math import ceil, sqrt
from typing import Literal

import numpy as np
from threadpoolctl import threadpool_limits

from relexify.errors import InputError
from relexify.progress import track

__all__ = ["available_cores", "largest_products", "nearest", "normalise_rows"]

BLOCK_BYTES = 96 << 20
"""Bytes of similarities that one thread holds at a time."""


def nearest(
    queries: np.ndarray, keys: np.ndarray, k: int, *, device: Literal["cpu", "cuda"] | str = "cpu"
) -> tuple[np.ndarray, np.ndarray]:
    """Find the k keys with the highest cosine for every query.

    Equal keys are ordered by index. A zero key has no direction and is never returned; a zero query has similarity 0 to
    all keys. If fewer than k keys are not zero, fewer columns are returned.

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
    queries, keys = normalise_rows(queries), normalise_rows(keys)
    query_rows, query_of = _distinct(queries)
    key_rows, key_of = _distinct(keys)
    key_rows = key_rows[np.any(keys[key_rows] != 0, axis=1)]
    if not len(key_rows):
        raise InputError("every key is a zero vector: give at least one vector that is not zero")
    search = _search_cpu if device == "cpu" else _search_torch
    found, similarities = search(queries[query_rows], keys[key_rows], min(k, len(key_rows)), device=device)
    return _expand(key_rows[found][query_of], similarities[query_of], key_of, key_rows, k)


def largest_products(
    queries: np.ndarray, keys: np.ndarray, k: int, *, device: Literal["cpu", "cuda"] | str = "cpu"
) -> tuple[np.ndarray, np.ndarray]:
    """Find the k keys with the largest dot product for every query; zero keys are included.

    Args:
        queries: [n × d].
        keys: [m × d].
        k: Number of keys per query, at most m.
        device: `"cpu"`, or a torch device such as `"cuda"`.

    Returns:
        Indices [n × k] into the keys and products [n × k], largest first.
    """
    if queries.ndim != 2 or keys.ndim != 2 or queries.shape[1] != keys.shape[1]:
        raise InputError(f"queries {queries.shape} and keys {keys.shape} must be matrices of one width")
    if not 1 <= k <= len(keys):
        raise InputError(f"{k} of {len(keys)} keys cannot be found: request 1 to {len(keys)}")
    queries, keys = (np.ascontiguousarray(matrix, dtype=np.float32) for matrix in (queries, keys))
    search = _search_cpu if device == "cpu" else _search_torch
    return search(queries, keys, k, device=device)


def normalise_rows(matrix: np.ndarray) -> np.ndarray:
    """Scale the rows to length one, float32 [n × d]; zero rows stay zero."""
    rows = np.asarray(matrix, dtype=np.float32)
    lengths = np.sqrt(np.einsum("nd,nd->n", rows, rows, dtype=np.float64))
    scale = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    scaled: np.ndarray = rows * scale[:, None].astype(np.float32)
    return scaled


def _search_cpu(queries: np.ndarray, keys: np.ndarray, k: int, *, device: str) -> tuple[np.ndarray, np.ndarray]:
    """Search block by block, one thread per core, each with a single-threaded matrix product."""
    stride, groups = _grouping(len(keys), k)
    padded = np.zeros((groups * stride, keys.shape[1]), dtype=np.float32)
    padded[: len(keys)] = keys
    transposed = padded.T
    size = int(np.clip(BLOCK_BYTES // (4 * len(padded)), 16, 512))
    starts = range(0, len(queries), size)
    found = np.empty((len(queries), k), dtype=np.int64)
    similarities = np.empty((len(queries), k), dtype=np.float32)

    def search_block(start: int) -> int:
        block = queries[start : start + size]
        scores = block @ transposed
        scores[:, len(keys) :] = -np.inf  # columns of padding
        columns, values = _top_by_groups(scores, k, stride, groups)
        found[start : start + size], similarities[start : start + size] = columns, values
        return len(block)

    with (
        track("finding nearest neighbours", len(queries)) as advance,
        threadpool_limits(limits=1, user_api="blas"),
        ThreadPoolExecutor(available_cores()) as pool,
    ):
        for done in pool.map(search_block, starts):
            advance(done)
    return found, similarities


def _grouping(keys: int, k: int) -> tuple[int, int]:
    """Return the size and the number of groups: with about √(keys/k) members both selections are equally small."""
    stride = max(1, round(sqrt(keys / k)))
    groups = max(ceil(keys / stride), k)
    return ceil(keys / groups), groups


def _top_by_groups(scores: np.ndarray, k: int, stride: int, groups: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the columns and values of the k largest of every row, in order.

    `scores` is [b × stride · groups]; group g has the columns g, g + groups, g + 2 · groups, …
    """
    rows = len(scores)
    grouped = scores.reshape(rows, stride, groups)
    best = grouped[:, 0].copy()
    for member in range(1, stride):
        np.maximum(best, grouped[:, member], out=best)
    # At most k - 1 groups have a larger maximum than a group with one of the k largest values.
    if k < groups:
        chosen = np.argpartition(best, groups - k, axis=1)[:, groups - k :]
    else:
        chosen = np.tile(np.arange(k), (rows, 1))
    columns = (chosen[:, None, :] + (np.arange(stride) * groups)[None, :, None]).reshape(rows, -1)
    candidates = np.take_along_axis(scores, columns, axis=1)
    return _ordered(candidates, columns, k)


def _ordered(candidates: np.ndarray, columns: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the k best candidates of every row, by falling similarity, then by ascending column."""
    if k < candidates.shape[1]:
        top = np.argpartition(candidates, candidates.shape[1] - k, axis=1)[:, candidates.shape[1] - k :]
        candidates, columns = np.take_along_axis(candidates, top, axis=1), np.take_along_axis(columns, top, axis=1)
    order = np.lexsort((columns, -candidates), axis=1)
    return np.take_along_axis(columns, order, axis=1), np.take_along_axis(candidates, order, axis=1)


def _search_torch(queries: np.ndarray, keys: np.ndarray, k: int, *, device: str) -> tuple[np.ndarray, np.ndarray]:
    """Search on an accelerator, in full float32."""
    import torch

    transposed = torch.from_numpy(keys).to(device).T
    size = max(16, (8 * BLOCK_BYTES) // (4 * len(keys)))
    found, similarities = [], []
    with track("finding nearest neighbours", len(queries)) as advance, torch.no_grad():
        for start in range(0, len(queries), size):
            block = torch.from_numpy(queries[start : start + size]).to(device)
            values, columns = torch.topk(block @ transposed, k, dim=1)
            ordered = _ordered(values.cpu().numpy(), columns.cpu().numpy(), k)
            found.append(ordered[0])
            similarities.append(ordered[1])
            advance(len(block))
    return np.concatenate(found), np.concatenate(similarities)


def _distinct(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first index of every distinct row, ascending, and for each row its position among those, [n].

    Rows are compared by a random linear hash modulo 2^64, because sorting whole rows is slow.
    """
    bits = rows.view(np.uint32)
    odd = np.random.default_rng(0).integers(0, 1 << 63, rows.shape[1], dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    hashes = np.concatenate([bits[i : i + 4096] @ odd for i in range(0, len(bits), 4096)] or [np.zeros(0, np.uint64)])
    _, first, twin = np.unique(hashes, return_index=True, return_inverse=True)
    if not np.array_equal(bits[first[twin]], bits):  # two different rows have the same hash: treat all as distinct
        return np.arange(len(rows)), np.arange(len(rows))
    order = np.argsort(first)
    position = np.empty_like(order)
    position[order] = np.arange(len(order))
    return first[order], position[twin]


def _expand(
    found: np.ndarray, similarities: np.ndarray, key_of: np.ndarray, key_rows: np.ndarray, k: int
) -> tuple[np.ndarray, np.ndarray]:
    """Replace every distinct key by all keys equal to it, and keep the first k, [n × k].

    Args:
        found: For each query, its nearest distinct keys, as indices into all keys, [n × ≤k].
        similarities: Their similarities.
        key_of: For each key, the position of its distinct key [m].
        key_rows: The distinct keys that are not zero.
        k: Number of neighbours.
    """
    if len(key_rows) == len(key_of):
        return found, similarities
    members = np.argsort(key_of, kind="stable")  # all keys, equal ones adjacent and in ascending order
    twins = np.bincount(key_of)  # how many keys are equal
    first = np.concatenate([[0], np.cumsum(twins)[:-1]])  # where the members of each group start
    groups = key_of[found]
    sizes = np.minimum(twins[groups], k)
    # Every query has the same number of columns: if some query finds fewer than k keys, then it has found all keys that
    # are not zero, and so have all others.
    columns = min(k, int(sizes[0].sum())) if len(sizes) else k
    # The group at position j of a row fills its columns starts[j] to ends[j]; fill one column of all rows at a time.
    ends = np.cumsum(sizes, axis=1)
    starts = ends - sizes
    keys = np.empty((len(found), columns), dtype=np.int64)
    values = np.empty((len(found), columns), dtype=np.float32)
    rows = np.arange(len(found))
    for column in range(columns):
        neighbour = (ends <= column).sum(axis=1)  # the position of the group that fills this column
        group, offset = groups[rows, neighbour], column - starts[rows, neighbour]
        keys[:, column] = members[first[group] + offset]
        values[:, column] = similarities[rows, neighbour]
    return keys, values


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
