"""Words and rows as a reader finds them, in one float32 matrix that grows in place."""

from __future__ import annotations

import numpy as np

__all__ = ["RowStore"]

_FIRST_ROWS = 4096


class RowStore:
    """Collects words with their rows; of equal words the first is kept.

    What a file announces is never allocated before it is read, so that a wrong number costs no memory.

    Attributes:
        width: The number of components of a row.
        words: The words kept so far.
        read: How many rows were given, duplicates included.
    """

    def __init__(self, width: int) -> None:
        self.width = width
        self.words: list[str] = []
        self.read = 0
        self._seen: set[str] = set()
        self._matrix = np.empty((0, width), np.float32)

    @property
    def duplicates(self) -> int:
        """How many rows were left out because their word was there already."""
        return self.read - len(self.words)

    def append(self, words: list[str], rows: np.ndarray) -> None:
        """Add words with their rows [words × width]."""
        fresh = []
        for place, word in enumerate(words):
            if word not in self._seen:
                self._seen.add(word)
                fresh.append(place)
        start, self.read = len(self.words), self.read + len(words)
        self.words.extend(words[place] for place in fresh)
        self._reserve(len(self.words))
        self._matrix[start : len(self.words)] = rows if len(fresh) == len(words) else rows[fresh]

    def matrix(self) -> np.ndarray:
        """The rows kept [words × width]; nothing can be added after."""
        self._matrix.resize((len(self.words), self.width), refcheck=False)
        return self._matrix

    def _reserve(self, rows: int) -> None:
        if rows > len(self._matrix):
            # Resizing in place lets the allocator move pages instead of copying them.
            self._matrix.resize((max(rows, 2 * len(self._matrix), _FIRST_ROWS), self.width), refcheck=False)
