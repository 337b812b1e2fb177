"""The search on an accelerator: a first pass in half precision, and exact products of the keys that it leaves.

As on a CPU (`search.py`), a bound ε on the error of the first pass decides which products are computed again: if t is
the k-th largest of a row, a key below t − 2ε is none of the k nearest. Here, a fixed number of keys is computed again
for every row, and the whole row where that number is too small. Rows that occur several times are searched each time,
which takes less time than finding them.
"""

from __future__ import annotations

import numpy as np
import torch

from relexify.errors import InputError
from relexify.progress import track

__all__ = ["largest_on", "nearest_on"]

BLOCK_BYTES = 768 << 20
"""Bytes of products in memory at a time."""
CANDIDATES = 4
"""Keys that are computed again for each of the k neighbours."""


def nearest_on(device: str, queries: np.ndarray, keys: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Find what `nearest` finds."""
    rows = _normalised(_uploaded(keys, device, "keys"))
    used = rows.any(dim=1).nonzero()[:, 0]
    if not len(used):
        raise InputError("every key is a zero vector: give at least one vector that is not zero")
    if len(used) < len(rows):
        rows = rows[used]
    found, products = _search(_normalised(_uploaded(queries, device, "queries")), rows, min(k, len(rows)))
    return used[found].cpu().numpy(), products.cpu().numpy()


def largest_on(device: str, queries: np.ndarray, keys: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Find what `largest_products` finds."""
    found, products = _search(_uploaded(queries, device, "queries"), _uploaded(keys, device, "keys"), k)
    return found.cpu().numpy(), products.cpu().numpy()


def _uploaded(matrix: np.ndarray, device: str, name: str) -> torch.Tensor:
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


def _search(queries: torch.Tensor, keys: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the columns and the values of the k largest products of every query, in order."""
    count, width = keys.shape
    candidates = min(count, CANDIDATES * k)
    first_pass = _FirstPass(keys)
    # Products of all keys in float32, or candidates in float32 and in float64
    size = max(16, BLOCK_BYTES // (4 * max(count, 3 * candidates * width)))
    found, values = [], []
    with track("finding nearest neighbours", len(queries)) as advance, torch.no_grad():
        for start in range(0, len(queries), size):
            block = queries[start : start + size]
            scores, errors = first_pass(block)
            best, columns = scores.topk(candidates, dim=1)
            columns = columns.sort(dim=1).values
            exact = torch.einsum("bcd,bd->bc", keys[columns].to(_exact_type(keys)), block.to(_exact_type(keys)))
            products, order = exact.float().sort(dim=1, descending=True, stable=True)  # equal products by column
            products, columns = products[:, :k], columns.gather(1, order[:, :k])
            is_open = best[:, -1] >= best[:, k - 1] - 2 * errors
            if candidates < count and is_open.any():
                open_rows = is_open.nonzero()[:, 0]
                for rows in torch.chunk(open_rows, 1 + 4 * len(open_rows) // size):  # in float64, with indices
                    whole = block[rows].to(_exact_type(keys)) @ keys.to(_exact_type(keys)).T
                    whole, order = whole.float().sort(dim=1, descending=True, stable=True)
                    products[rows], columns[rows] = whole[:, :k], order[:, :k]
            found.append(columns)
            values.append(products)
            advance(len(block))
    return torch.cat(found), torch.cat(values)


class _FirstPass:
    """Products of queries with all keys [m × d], and the largest possible error of each row; both in a unit of the row.

    Inputs in half precision give products in float32, so their only large error is that of rounding the inputs. Where
    torch has no such product, inputs are in float32.
    """

    def __init__(self, keys: torch.Tensor) -> None:
        scaled = keys / keys.abs().max().clamp(min=torch.finfo(torch.float32).tiny)
        self.type = torch.float16 if _has_half_products(keys) else torch.float32
        self.keys = scaled.to(self.type)
        self.longest = _lengths(scaled).max()
        self.rounding = _lengths(scaled - self.keys).max()

    def __call__(self, queries: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        largest = queries.abs().amax(dim=1, keepdim=True)
        scaled = queries / torch.where(largest > 0, largest, 1)
        rounded = scaled.to(self.type)
        lengths = _lengths(scaled)
        errors = _lengths(scaled - rounded) * self.longest + _lengths(rounded) * self.rounding
        # A sum of d products in float32 has a relative error of d ε/2 in any order; the rest covers the bound itself.
        errors += 2 * queries.shape[1] * torch.finfo(torch.float32).eps * lengths * self.longest
        return _multiply(rounded, self.keys.T), errors


def _multiply(queries: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
    """Multiply matrices, in half precision or float32, and return float32."""
    if queries.dtype == torch.float32:
        return queries @ keys
    return torch.mm(queries, keys, out_dtype=torch.float32)


def _has_half_products(keys: torch.Tensor) -> bool:
    """Whether torch multiplies matrices in half precision on this device with a result in float32."""
    try:
        _multiply(keys[:16].half(), keys[:16].half().T)
    except (TypeError, NotImplementedError, RuntimeError):  # an older torch, or another device
        return False
    return True


def _exact_type(rows: torch.Tensor) -> torch.dtype:
    return torch.float32 if rows.device.type == "mps" else torch.float64  # MPS has no float64


def _lengths(rows: torch.Tensor) -> torch.Tensor:
    lengths: torch.Tensor = torch.linalg.vector_norm(rows, dim=1, dtype=torch.float32)
    return lengths
