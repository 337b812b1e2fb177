"""Read rows of a matrix that may be a memory-mapped file, without keeping the file in memory."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import scipy

__all__ = ["add_rows", "gather_rows", "source_of"]

# The kernel may map hundreds of kilobytes around each touched page. To bound the resident memory, a block of rows is
# limited by the distance between its first and last row or, if rows lie far apart, by their number.
_BYTES_AT_ONCE = 128 << 20
_ROWS_AT_ONCE = 256
_TERMS_AT_ONCE = 1 << 16


def gather_rows(matrix: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Copy some rows of a matrix; if it is memory-mapped, only their pages are read, and released immediately.

    Args:
        matrix: [rows × d], in memory or mapped.
        rows: Row indices [n], sorted.

    Returns:
        float32 [n × d].
    """
    gathered = np.empty((len(rows), matrix.shape[1]), np.float32)
    plain = np.asarray(matrix)
    reach = _BYTES_AT_ONCE // max(matrix.strides[0], 1)
    start = 0
    with _random_access(matrix) as mapping:
        while start < len(rows):
            end = max(int(np.searchsorted(rows, rows[start] + reach)), start + _ROWS_AT_ONCE)
            # Not np.take, because it first copies the whole matrix if it is not aligned, as in fastText's files.
            gathered[start:end] = plain[rows[start:end]]
            if mapping is not None:
                _advise(mapping, "MADV_DONTNEED")
            start = end
    return gathered


def add_rows(sums: np.ndarray, positions: np.ndarray, matrix: np.ndarray, rows: np.ndarray) -> None:
    """Compute `sums[positions[i]] += matrix[rows[i]]` for every i, in one pass through the matrix.

    Args:
        sums: float32 [m × d], changed in place.
        positions: The sum that each row is added to [n].
        matrix: [rows × d], in memory or mapped.
        rows: Row indices in any order [n].
    """
    order = np.argsort(rows, kind="stable")
    for start in range(0, len(order), _TERMS_AT_ONCE):
        terms = order[start : start + _TERMS_AT_ONCE]
        wanted = rows[terms]  # ascending
        is_new = np.diff(wanted, prepend=-1) > 0
        needed, columns = wanted[is_new], np.cumsum(is_new) - 1
        touched, lines = np.unique(positions[terms], return_inverse=True)
        # csr_array adds up repeated entries, as needed: a word may contain the same n-gram twice.
        uses = scipy.sparse.csr_array((np.ones(len(terms), np.float32), (lines, columns)), (len(touched), len(needed)))
        sums[touched] += uses @ gather_rows(matrix, needed)


def source_of(matrix: np.ndarray) -> str:
    """Return the file that a matrix is mapped from, for messages, or "the matrix" if it is in memory."""
    return str(getattr(matrix, "filename", None) or "the matrix")


@contextmanager
def _random_access(matrix: np.ndarray) -> Iterator[mmap.mmap | None]:
    """Yield the memory map under a matrix, if any, with read-ahead turned off."""
    mapping: object = matrix
    while isinstance(mapping, np.ndarray):
        mapping = mapping.base
    if not isinstance(mapping, mmap.mmap):
        yield None
        return
    _advise(mapping, "MADV_RANDOM")
    try:
        yield mapping
    finally:
        _advise(mapping, "MADV_NORMAL")


def _advise(mapping: mmap.mmap, advice: str) -> None:
    """Tell the kernel how the map is used, if the system supports this."""
    if hasattr(mmap, advice):
        mapping.madvise(getattr(mmap, advice))
