"""The search on an accelerator: a first pass in half precision, and exact products for the remaining candidates.

As on a CPU (`search.py`), a bound ε on the error of the first pass determines which products must be computed exactly:
if t is the k-th largest approximate product of a row, a key below t − 2ε is not one of the k nearest. Here, exact
products are computed for a fixed number of candidates in every row; they are computed for the whole row if there may be
more candidates, or if the row is not longer. Each duplicate row is searched again, because finding duplicates would
take longer.

All queries and keys are on the device; the memory for everything else depends neither on their number nor on k.
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
"""Bytes of products in memory at a time; the float64 copies of keys take additional memory."""
CANDIDATES = 2
"""Number of candidates with exact products, per neighbour."""
FEWEST_CANDIDATES = 16
"""Minimum number of candidates with exact products, for every query."""
_PREPARED_ROWS = 65_536
"""Number of keys that are prepared for the first pass at a time."""
_ALIGNED = 8
"""In the first pass, the width of keys is padded to a multiple of this number."""
_ROUNDED_INPUTS = 3 * 2.0**-10
"""The largest relative error of a product whose factors are truncated to the 10 bits of TF32."""
_GROUP = 32
"""Columns in a group; groups are first compared by their largest product."""
_SORTED_BYTES = 48
"""Bytes per product of a row that is sorted: float32 and an index, twice each, and the working memory of torch."""


def nearest_on(device: str, queries: np.ndarray, keys: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the same as `nearest`, computed on a device."""
    with _memory_reported(device):
        rows = _normalised(_uploaded(keys, device, "keys"))
        nonzero = rows.any(dim=1).nonzero()[:, 0]
        if not len(nonzero):
            raise InputError("every key is a zero vector: give at least one vector that is not zero")
        if len(nonzero) < len(rows):
            rows = rows[nonzero]
        return _search(_normalised(_uploaded(queries, device, "queries")), rows, min(k, len(rows)), nonzero)


def largest_on(device: str, queries: np.ndarray, keys: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the same as `largest_products`, computed on a device."""
    with _memory_reported(device):
        rows = _uploaded(keys, device, "keys")
        return _search(_uploaded(queries, device, "queries"), rows, k, torch.arange(len(rows), device=rows.device))


@contextmanager
def _memory_reported(device: str) -> Iterator[None]:
    """Raise an `InputError` if a device runs out of memory."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise InputError(
            f"the memory of {device} is too small to search neighbours: free some of it, or search with `device=cpu`"
        ) from error


def _uploaded(matrix: np.ndarray, device: str, name: str) -> torch.Tensor:
    """Return a matrix in float32 on a device."""
    with np.errstate(over="ignore"):  # overflow to infinity is reported below
        rows = torch.from_numpy(np.ascontiguousarray(matrix, dtype=np.float32)).to(device)
    nonfinite = int((~rows.isfinite().all(dim=1)).sum())
    if nonfinite:
        raise InputError(
            f"{nonfinite:,} of {len(rows):,} {name} contain NaN or numbers that are infinite in float32: remove them"
        )
    return rows


def _normalised(rows: torch.Tensor) -> torch.Tensor:
    """Scale rows as `normalise_rows` does."""
    lengths = torch.linalg.vector_norm(rows, dim=1, dtype=_exact_type(rows))
    scale = torch.where(lengths >= torch.finfo(torch.float32).tiny, 1 / lengths, 0)
    scaled = rows * scale.float()[:, None]
    longest = ((scale < torch.finfo(torch.float32).tiny) & (scale > 0)).nonzero()[:, 0]
    if len(longest):
        scaled[longest] = (rows[longest].to(scale) * scale[longest, None]).float()
    return scaled


def _search(queries: torch.Tensor, keys: torch.Tensor, k: int, indices: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Return, for every query, the indices of the keys with the k largest products, and these products, in order.

    Results are copied off the device block by block, so its memory limits neither the number of queries nor k.

    Args:
        queries: [n × d].
        keys: [m × d].
        k: Number of products to find.
        indices: The index to return for each key [m].
    """
    count = len(keys)
    candidates = max(CANDIDATES * k, FEWEST_CANDIDATES)
    nearest = np.empty((len(queries), k), dtype=np.int64)
    values = np.empty((len(queries), k), dtype=np.float32)
    first_pass = _FirstPass(keys) if candidates < count else None
    budget = _block_bytes(keys)
    row_bytes = _SORTED_BYTES * count
    if first_pass:
        candidate_bytes = _SORTED_BYTES
        if _has_groups(count, candidates):  # all columns of a candidate's group: an index (8 bytes) and a score (4)
            candidate_bytes += 12 * _GROUP
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
            nearest[start : start + size] = indices[columns].cpu().numpy()
            values[start : start + size] = products.cpu().numpy()
            advance(len(block))
    return nearest, values


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
        budget: Bytes of gathered keys, or of products of whole rows, in memory at a time.
        scores: The c > k largest products of the first pass, in order [n × c].
        columns: Their columns [n × c].
        errors: The largest possible error of each row [n].
    """
    # In these rows, even the smallest candidate is within the margin, so keys outside the candidates may be too.
    open_rows = (scores[:, -1].float() >= scores[:, k - 1].float() - 2 * errors).nonzero()[:, 0]
    columns = columns.sort(dim=1).values
    exact = torch.empty(columns.shape, dtype=torch.float32, device=keys.device)
    block = queries.to(_exact_type(keys))
    part = max(1, budget // (12 * len(queries) * keys.shape[1]))  # keys of candidates in float32 and in float64
    for start in range(0, columns.shape[1], part):
        candidate_keys = keys[columns[:, start : start + part]].to(_exact_type(keys))
        exact[:, start : start + part] = torch.einsum("bcd,bd->bc", candidate_keys, block)
    products, order = exact.sort(dim=1, descending=True, stable=True)  # ties in order of the columns
    products, columns = products[:, :k], columns.gather(1, order[:, :k])
    size = max(1, budget // (_SORTED_BYTES * len(keys)))
    for start in range(0, len(open_rows), size):
        rows = open_rows[start : start + size]
        products[rows], columns[rows] = _largest_of_all(queries[rows], keys, k, budget)
    return products, columns


def _largest_scores(scores: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the `count` largest scores of every row, and their columns.

    Columns are divided into groups. The `count` largest scores are all in the `count` groups with the largest maxima,
    so most scores are read only once, to compute the maxima. `topk` on whole rows would read them several times.
    """
    groups, rest = divmod(scores.shape[1], _GROUP)
    if not _has_groups(scores.shape[1], count):
        best, columns = scores.topk(count, dim=1)
        return best, columns
    # A group contains every `groups`-th column, so that adjacent maxima are computed from adjacent scores in memory.
    maxima = scores[:, : groups * _GROUP].reshape(len(scores), _GROUP, groups).amax(dim=1)
    best_groups = maxima.topk(count, dim=1).indices
    columns = (best_groups[:, :, None] + groups * torch.arange(_GROUP, device=scores.device)).flatten(1)
    if rest:
        last = torch.arange(groups * _GROUP, scores.shape[1], device=scores.device)
        columns = torch.cat([columns, last.expand(len(scores), -1)], dim=1)
    best, positions = scores.gather(1, columns).topk(count, dim=1)
    return best, columns.gather(1, positions)


def _has_groups(columns: int, count: int) -> bool:
    """Whether there are enough groups of columns that comparing their maxima first saves time."""
    return columns // _GROUP > 2 * count


def _largest_of_all(
    queries: torch.Tensor, keys: torch.Tensor, k: int, budget: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the k largest exact products of every query, and their columns, without a first pass."""
    exact = queries.new_empty(len(queries), len(keys))
    block = queries.to(_exact_type(keys))
    part = max(1, budget // (8 * (len(queries) + keys.shape[1])))  # keys and products in float64
    for start in range(0, len(keys), part):
        exact[:, start : start + part] = block @ keys[start : start + part].to(_exact_type(keys)).T
    products, columns = exact.sort(dim=1, descending=True, stable=True)
    return products[:, :k], columns[:, :k]


def _block_bytes(rows: torch.Tensor) -> int:
    """Return how many bytes of products may be in memory at a time; total memory use is up to four times as much."""
    if not rows.is_cuda:
        return BLOCK_BYTES
    # CUDA does not count memory as free that torch has reserved but does not use now.
    unused = torch.cuda.memory_reserved(rows.device) - torch.cuda.memory_allocated(rows.device)
    return min(BLOCK_BYTES, (torch.cuda.mem_get_info(rows.device)[0] + unused) // 8)


class _FirstPass:
    """Approximate products of queries with all keys [m × d], and the largest possible error of each row.

    Products and errors of a row are scaled by the same factor, which differs between rows, so only products of the same
    row can be compared.

    On an NVIDIA GPU, inputs and products are in half precision, and sums in float32: the main errors come from rounding
    inputs and products. Other devices may sum in half precision, so float32 is used for everything there.
    """

    def __init__(self, keys: torch.Tensor) -> None:
        self.type = torch.float16 if _has_half_products(keys) else torch.float32
        self.is_rounded = self.type == torch.float32 and _rounds_inputs(keys)
        # Fast matrix products on a GPU need rows whose size is a multiple of 16 bytes.
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
        # A sum of d products in float32 has a relative error of at most d ε/2 in any order of summation. The factor 2
        # instead of 1/2 also covers the rounding of the bound itself.
        errors += 2 * queries.shape[1] * torch.finfo(torch.float32).eps * lengths * self.longest
        if self.is_rounded:
            errors += _ROUNDED_INPUTS * lengths * self.longest
        if self.type == torch.float16:  # rounding the product: a relative error, or an absolute one for tiny products
            errors += torch.finfo(torch.float16).eps * lengths * self.longest + torch.finfo(torch.float16).tiny
        padded = torch.nn.functional.pad(rounded, (0, self.keys.shape[1] - queries.shape[1]))
        return _multiply(padded, self.keys.T), errors


def _multiply(queries: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
    """Multiply matrices in half precision with sums in float32, or in float32."""
    settings = torch.backends.cuda.matmul
    before = settings.allow_fp16_reduced_precision_reduction  # whether partial sums may be in half precision
    settings.allow_fp16_reduced_precision_reduction = False
    try:
        return queries @ keys
    finally:
        settings.allow_fp16_reduced_precision_reduction = before


def _has_half_products(keys: torch.Tensor) -> bool:
    """Whether half precision can be used: sums are in float32, and products, at most d for scaled inputs, fit."""
    return keys.is_cuda and keys.shape[1] < torch.finfo(torch.float16).max


def _rounds_inputs(keys: torch.Tensor) -> bool:
    """Whether float32 products round their inputs to TF32; the calling program may have enabled this on GPUs."""
    return keys.is_cuda and torch.get_float32_matmul_precision() != "highest"


def _exact_type(rows: torch.Tensor) -> torch.dtype:
    return torch.float32 if rows.device.type == "mps" else torch.float64  # MPS has no float64


def _lengths(rows: torch.Tensor) -> torch.Tensor:
    lengths: torch.Tensor = torch.linalg.vector_norm(rows, dim=1, dtype=torch.float32)
    return lengths
