"""word2vec's binary format: a line "count width", then each word, a space and its float32 numbers."""

from __future__ import annotations

from pathlib import Path
from typing import IO

import numpy as np

from relexify.errors import InputError
from relexify.evidence.vectors.formats.row_store import RowStore, open_vector_file
from relexify.evidence.vectors.formats.text import announced_shape
from relexify.evidence.vectors.word_vectors import WordVectors

__all__ = ["is_word2vec_binary", "read_word2vec_binary"]

_LONGEST_HEADER = 100  # bytes
_LONGEST_WORD = 1 << 20  # bytes
_SAMPLE = 4096  # bytes
_NEVER_IN_TEXT = frozenset(range(32)) - frozenset(b"\t\n\r")


def is_word2vec_binary(path: str | Path) -> bool:
    """Whether a file that starts with "count width" goes on with raw numbers rather than with text."""
    with open_vector_file(Path(path)) as stream:
        if announced_shape(stream.readline(_LONGEST_HEADER)) is None:
            return False
        sample = stream.read(_SAMPLE)
    return not _NEVER_IN_TEXT.isdisjoint(sample)


def read_word2vec_binary(path: str | Path, *, limit: int | None = None) -> WordVectors:
    """Read word2vec's binary format into memory.

    Args:
        path: The file, plain or gzipped.
        limit: Read so many words and no more.

    Raises:
        InputError: The file is cut short or damaged.
    """
    path = Path(path)
    with open_vector_file(path) as stream:
        announced = announced_shape(stream.readline(_LONGEST_HEADER))
        if announced is None or announced[1] < 1:
            raise InputError(f"{path} does not start with 'count width': give vectors in word2vec's format")
        count, width = announced
        store = RowStore(path, width)
        for number in range(1, (count if limit is None else min(count, limit)) + 1):
            word, numbers = _read_word(stream), stream.read(4 * width)
            if word is None or len(numbers) != 4 * width:
                raise InputError(f"{path} is cut short or damaged at word {number} of the {count} it announces")
            store.append([word], np.frombuffer(numbers, "<f4")[None], "word", number)
    return store.finish()


def _read_word(stream: IO[bytes]) -> bytes | None:
    """The bytes up to the next space, less the line break that some writers put before a word; `None` at the end."""
    word = bytearray()
    while (byte := stream.read(1)) != b" ":
        if not byte or len(word) > _LONGEST_WORD:
            return None
        word += byte
    return bytes(word).lstrip(b"\n")
