"""Words and rows as a reader finds them, checked, in one float32 matrix that grows in place."""

from __future__ import annotations

import gzip
import logging
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np

from relexify.errors import InputError
from relexify.evidence.vectors.word_vectors import WordVectors

__all__ = ["RowStore", "open_vector_file"]

_FIRST_ROWS = 4096

logger = logging.getLogger(__name__)


class RowStore:
    """Collects words with their rows; of equal words the first is kept.

    What a file announces is never allocated before it is read, so that a wrong number costs no memory.

    Attributes:
        path: The file that is read, for messages.
        width: The number of components of a row.
        read: How many rows were given, duplicates included.
    """

    def __init__(self, path: Path, width: int) -> None:
        self.path = path
        self.width = width
        self.read = 0
        self._words: dict[str, None] = {}  # keeps the order, and tells duplicates
        self._matrix = np.empty((0, width), np.float32)

    def append(self, raw: list[bytes], rows: np.ndarray, where: str, number: int) -> None:
        """Add words with their rows [words × width].

        Args:
            raw: The words in UTF-8.
            rows: Their rows.
            where: What the file counts, "line" or "word", for messages.
            number: The number of the first of them.
        """
        words = self._decoded(raw, where, number)
        finite = np.isfinite(rows).all(axis=1)
        if not finite.all():
            place = int(np.argmin(finite))
            raise InputError(
                f"{self.path}, {where} {number + place}: the vector of {words[place]!r} holds NaN or infinity; "
                "get the file anew"
            )
        start, self.read = len(self._words), self.read + len(words)
        fresh = [place for place, word in enumerate(words) if self._is_new(word)]
        self._reserve(len(self._words))
        self._matrix[start : len(self._words)] = rows if len(fresh) == len(words) else rows[fresh]

    def finish(self) -> WordVectors:
        """The vectors read, if there are any; nothing can be added after."""
        words = list(self._words)
        if not words:
            raise InputError(f"{self.path} holds no vectors: give a file with one word and its numbers a line")
        if self.read > len(words):
            repeated = self.read - len(words)
            logger.warning("%s repeats words in %d rows: the first row of each is kept", self.path, repeated)
        self._matrix.resize((len(words), self.width), refcheck=False)
        return WordVectors(words, self._matrix)

    def _is_new(self, word: str) -> bool:
        """Remember a word, and tell whether it was not there."""
        before = len(self._words)
        self._words[word] = None
        return len(self._words) > before

    def _reserve(self, rows: int) -> None:
        if rows > len(self._matrix):
            # Resizing in place lets the allocator move pages instead of copying them.
            self._matrix.resize((max(rows, 2 * len(self._matrix), _FIRST_ROWS), self.width), refcheck=False)

    def _decoded(self, raw: list[bytes], where: str, number: int) -> list[str]:
        words = []
        for place, word in enumerate(raw):
            try:
                words.append(word.decode())
            except UnicodeDecodeError as error:
                raise InputError(
                    f"{self.path}, {where} {number + place}: the word {word!r} is not UTF-8; convert the file to UTF-8"
                ) from error
        return words


@contextmanager
def open_vector_file(path: Path) -> Iterator[IO[bytes]]:
    """Open a file, unpacking gzip, and turn what goes wrong while it is read into one sentence."""
    try:
        with open(path, "rb") as plain:
            zipped = plain.read(2) == b"\x1f\x8b"
            plain.seek(0)
            if zipped:
                with gzip.GzipFile(fileobj=plain) as unpacked:
                    yield unpacked  # type: ignore[misc]
            else:
                yield plain
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path} cannot be read ({error}): get it anew") from error
