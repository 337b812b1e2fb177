"""Rows out of a matrix that may be a memory-mapped file, without keeping the file in memory."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

__all__ = ["gather_rows", "source_of"]

# The kernel maps up to sixteen pages around each one touched, so so many rows may cost 128 MB of resident pages.
_ROWS_AT_ONCE = 2048


def gather_rows(matrix: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Copy some rows of a matrix; of a mapped one only their pages are read, and given back at once.

    Args:
        matrix: [rows × d], in memory or mapped.
        rows: Row numbers [n], sorted for speed.

    Returns:
        float32 [n × d].
    """
    gathered = np.empty((len(rows), matrix.shape[1]), np.float32)
    plain = np.asarray(matrix)
    with _random_access(matrix) as mapping:
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            block = slice(start, start + _ROWS_AT_ONCE)
            # Not np.take: it first copies the whole of a matrix that starts at an odd byte, as fastText's do.
            gathered[block] = plain[rows[block]]
            if mapping is not None:
                _advise(mapping, "MADV_DONTNEED")
    return gathered


def source_of(matrix: np.ndarray) -> str:
    """The file a matrix is mapped from, for messages; "the matrix" where it is in memory."""
    return str(getattr(matrix, "filename", None) or "the matrix")


@contextmanager
def _random_access(matrix: np.ndarray) -> Iterator[mmap.mmap | None]:
    """Yield the map under a matrix, if there is one, with read-ahead off for the time being."""
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
    """Tell the kernel how the map is used, on the systems that listen."""
    if hasattr(mmap, advice):
        mapping.madvise(getattr(mmap, advice))
