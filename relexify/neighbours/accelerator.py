"""The search on an accelerator: a first pass in half precision, and exact products of the keys that it leaves.

As on a CPU (`search.py`), a bound ε on the error of the first pass decides which products are computed again: if t is
the k-th largest of a row, a key below t − 2ε is none of the k nearest. Here, a fixed number of keys is computed again
for every row, and the whole row where that number is too small, or as large as the row. Rows that occur several times
are searched each time, which takes less time than finding them.

Besides queries and keys, which are on the device as a whole, memory does not depend on their number nor on k.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

from relexify.errors import InputError
from relexify.progress import track

__all__ = ["largest_on", "nearest_on"]

BLOCK_BYTES = 768 << 20
"""Bytes of products in memory at a time; those of keys in float64 beside them."""
CANDIDATES = 2
"""Keys that are computed again for each of the k neighbours."""
FEWEST_CANDIDATES = 16
"""Keys that are computed again for every query, at least."""
_PREPARED_ROWS = 65_536
"""Keys that are prepared for the first pass at a time."""
_ALIGNED = 8
"""Keys have a multiple of this many numbers in the first pass."""
_ROUNDED_INPUTS = 3 * 2.0**-10
"""The largest relative error of a product whose factors are cut off to the 10 bits of TF32."""
_GROUP = 32
"""Columns that are searched by their largest product first."""
_SORTED_BYTES = 48
"""Bytes of one product in a row that is sorted: float32 and an index, twice each, and what torch needs beside."""


def nearest_on(device: str, queries: np.ndarray, keys: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Find what `nearest` finds."""
    with _memory_reported(device):
        rows = _normalised(_uploaded(keys, device, "keys"))
        used = rows.any(dim=1).nonzero()[:, 0]
        if not len(used):
            raise InputError("every key is a zero vector: give at least one vector that is not zero")
        if len(used) < len(rows):
            rows = rows[used]
        return _search(_normalised(_uploaded(queries, device, "queries")), rows, min(k, len(rows)), used)


def largest_on(device: str, queries: np.ndarray, keys: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Find what `largest_products` finds."""
    with _memory_reported(device):
        rows = _uploaded(keys, device, "keys")
        return _search(_uploaded(queries, device, "queries"), rows, k, torch.arange(len(rows), device=rows.device))


@contextmanager
def _memory_reported(device: str) -> Iterator[None]:
    """Raise errors of a device whose memory is too small as `InputError`."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise InputError(
            f"the memory of {device} is too small to search neighbours: free some of it, or search with `device=cpu`"
        ) from error


def _uploaded(matrix: np.ndarray, device: str, name: str) -> torch.Tensor:
    """Return a matrix in float32 on a device."""
    with np.errstate(over="ignore"):  # numbers that become infinite are reported below
        rows = torch.from_numpy(np.ascontiguousarray(matrix, dtype=np.float32)).to(device)
    wrong = int((~rows.isfinite().all(dim=1)).sum())
    if wrong:
        raise InputError(
            f"{wrong:,} of {len(rows):,} {name} contain NaN or numbers that are infinite in float32: leave them out"
        )
    return rows


def _normalised(rows: torch.Tensor) -> torch.Tensor:
    """Scale rows as `normalise_rows` does."""
    lengths = torch.linalg.vector_norm(rows, dim=1, dtype=_exact_type(rows))
    scale = torch.where(lengths >= torch.finfo(torch.float32).tiny, 1 / lengths, 0)
    return rows * scale.float()[:, None]


def _search(queries: torch.Tensor, keys: torch.Tensor, k: int, indices: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Return the indices of the keys with the k largest products of every query, and these products, in order.

    Each block of results leaves the device at once, so that its memory does not limit the number of queries and of k.
    """
    count, candidates = len(keys), max(CANDIDATES * k, FEWEST_CANDIDATES)
    found = np.empty((len(queries), k), dtype=np.int64)
    values = np.empty((len(queries), k), dtype=np.float32)
    first_pass = _FirstPass(keys) if candidates < count else None
    budget = _block_bytes(keys)
    row_bytes = _SORTED_BYTES * count
    if first_pass:
        candidate_bytes = _SORTED_BYTES + 12 * _GROUP * _has_groups(count, candidates)
        row_bytes = first_pass.type.itemsize * count + candidate_bytes * candidates
    size = max(1, budget // row_bytes)
    with track("finding nearest neighbours", len(queries)) as advance, torch.no_grad():
        for start in range(0, len(queries), size):
            block = queries[start : start + size]
            if first_pass is None:
                products, columns = _largest_of_all(block, keys, k, budget)
            else:
                scores, errors = first_pass(block)
                best, columns = _largest_scores(scores, candidates)
                products, columns = _largest_of_candidates(block, keys, k, budget, best, columns, errors)
            found[start : start + size] = indices[columns].cpu().numpy()
            values[start : start + size] = products.cpu().numpy()
            advance(len(block))
    return found, values


def _largest_of_candidates(
    queries: torch.Tensor,
    keys: torch.Tensor,
    k: int,
    budget: int,
    scores: torch.Tensor,
    columns: torch.Tensor,
    errors: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the k largest exact products of every query, and their columns.

    Args:
        queries: [n × d].
        keys: [m × d].
        k: Number of products to find.
        budget: Bytes of keys, and of rows that are computed again, in memory at a time.
        scores: The c > k largest products of the first pass, in order [n × c].
        columns: Their columns [n × c].
        errors: The largest possible error of each row [n].
    """
    open_rows = (scores[:, -1].float() >= scores[:, k - 1].float() - 2 * errors).nonzero()[:, 0]
    columns = columns.sort(dim=1).values
    exact = torch.empty(columns.shape, dtype=torch.float32, device=keys.device)
    block = queries.to(_exact_type(keys))
    part = max(1, budget // (12 * len(queries) * keys.shape[1]))  # keys of candidates in float32 and in float64
    for start in range(0, columns.shape[1], part):
        chosen = keys[columns[:, start : start + part]].to(_exact_type(keys))
        exact[:, start : start + part] = torch.einsum("bcd,bd->bc", chosen, block)
    products, order = exact.sort(dim=1, descending=True, stable=True)  # equal products by column
    products, columns = products[:, :k], columns.gather(1, order[:, :k])
    size = max(1, budget // (_SORTED_BYTES * len(keys)))
    for start in range(0, len(open_rows), size):
        rows = open_rows[start : start + size]
        products[rows], columns[rows] = _largest_of_all(queries[rows], keys, k, budget)
    return products, columns


def _largest_scores(scores: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the largest scores of every row, and their columns.

    They are in as many groups of columns as there are scores to find: those with the largest maxima. So most scores are
    read once, to find these maxima, where `topk` reads every row several times.
    """
    groups, rest = divmod(scores.shape[1], _GROUP)
    if not _has_groups(scores.shape[1], count):
        best, columns = scores.topk(count, dim=1)
        return best, columns
    # A group has every `groups`-th column, so that neighbouring maxima are computed from neighbouring scores.
    maxima = scores[:, : groups * _GROUP].reshape(len(scores), _GROUP, groups).amax(dim=1)
    chosen = maxima.topk(count, dim=1).indices
    columns = (chosen[:, :, None] + groups * torch.arange(_GROUP, device=scores.device)).flatten(1)
    if rest:
        last = torch.arange(groups * _GROUP, scores.shape[1], device=scores.device)
        columns = torch.cat([columns, last.expand(len(scores), -1)], dim=1)
    best, places = scores.gather(1, columns).topk(count, dim=1)
    return best, columns.gather(1, places)


def _has_groups(columns: int, count: int) -> bool:
    """Whether there are enough groups of columns to save time by looking at their maxima first."""
    return columns // _GROUP > 2 * count


def _largest_of_all(
    queries: torch.Tensor, keys: torch.Tensor, k: int, budget: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the k largest exact products of every query, and their columns, without a first pass."""
    whole = queries.new_empty(len(queries), len(keys))
    block = queries.to(_exact_type(keys))
    part = max(1, budget // (8 * (len(queries) + keys.shape[1])))  # keys and products in float64
    for start in range(0, len(keys), part):
        whole[:, start : start + part] = block @ keys[start : start + part].to(_exact_type(keys)).T
    products, columns = whole.sort(dim=1, descending=True, stable=True)
    return products[:, :k], columns[:, :k]


def _block_bytes(rows: torch.Tensor) -> int:
    """Return how many bytes of products may be in memory at a time: up to four times as many are used in all."""
    if not rows.is_cuda:
        return BLOCK_BYTES
    unused = torch.cuda.memory_reserved(rows.device) - torch.cuda.memory_allocated(rows.device)
    return min(BLOCK_BYTES, (torch.cuda.mem_get_info(rows.device)[0] + unused) // 8)


class _FirstPass:
    """Products of queries with all keys [m × d], and the largest possible error of each row; both in a unit of the row.

    On an NVIDIA GPU, inputs and products are in half precision, and sums in float32: the large errors are those of
    rounding inputs and products. Other devices may sum in half precision, so there all of it is in float32.
    """

    def __init__(self, keys: torch.Tensor) -> None:
        self.type = torch.float16 if _has_half_products(keys) else torch.float32
        self.is_rounded = self.type == torch.float32 and _rounds_inputs(keys)
        # Rows of a multiple of 16 bytes, as fast products of a GPU need them.
        self.keys = keys.new_zeros(len(keys), -(-keys.shape[1] // _ALIGNED) * _ALIGNED, dtype=self.type)
        self.longest = self.rounding = keys.new_zeros(())
        largest = max(keys.max(), -keys.min()).clamp(min=torch.finfo(torch.float32).tiny)
        for start in range(0, len(keys), _PREPARED_ROWS):
            scaled = keys[start : start + _PREPARED_ROWS] / largest
            rounded = self.keys[start : start + _PREPARED_ROWS, : keys.shape[1]].copy_(scaled)
            self.longest = torch.maximum(self.longest, _lengths(scaled).max())
            self.rounding = torch.maximum(self.rounding, _lengths(scaled - rounded).max())

    def __call__(self, queries: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        largest = queries.abs().amax(dim=1, keepdim=True)
        scaled = queries / torch.where(largest > 0, largest, 1)
        rounded = scaled.to(self.type)
        lengths = _lengths(scaled)
        errors = _lengths(scaled - rounded) * self.longest + _lengths(rounded) * self.rounding
        # A sum of d products in float32 has a relative error of d ε/2 in any order; the rest covers the bound itself.
        errors += 2 * queries.shape[1] * torch.finfo(torch.float32).eps * lengths * self.longest
        if self.is_rounded:
            errors += _ROUNDED_INPUTS * lengths * self.longest
        if self.type == torch.float16:  # a product is rounded, relative to its size or to the smallest number
            errors += torch.finfo(torch.float16).eps * lengths * self.longest + torch.finfo(torch.float16).tiny
        padded = torch.nn.functional.pad(rounded, (0, self.keys.shape[1] - queries.shape[1]))
        return _multiply(padded, self.keys.T), errors


def _multiply(queries: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
    """Multiply matrices, in half precision with sums in float32, or in float32."""
    settings = torch.backends.cuda.matmul
    before = settings.allow_fp16_reduced_precision_reduction  # whether parts of a sum may be added in half precision
    settings.allow_fp16_reduced_precision_reduction = False
    try:
        return queries @ keys
    finally:
        settings.allow_fp16_reduced_precision_reduction = before


def _has_half_products(keys: torch.Tensor) -> bool:
    """Whether products in half precision are summed in float32; as scaled inputs are at most 1, they are at most d."""
    return keys.is_cuda and keys.shape[1] < torch.finfo(torch.float16).max


def _rounds_inputs(keys: torch.Tensor) -> bool:
    """Whether products in float32 round their inputs to TF32, as a caller of torch may have allowed on GPUs."""
    return keys.is_cuda and torch.get_float32_matmul_precision() != "highest"


def _exact_type(rows: torch.Tensor) -> torch.dtype:
    return torch.float32 if rows.device.type == "mps" else torch.float64  # MPS has no float64


def _lengths(rows: torch.Tensor) -> torch.Tensor:
    lengths: torch.Tensor = torch.linalg.vector_norm(rows, dim=1, dtype=torch.float32)
    return lengths
