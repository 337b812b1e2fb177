"""Word vectors, with or without fastText's character n-grams: the noun of this room."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from relexify.errors import InputError
from relexify.evidence.vectors.mapped_rows import add_rows, source_of
from relexify.evidence.vectors.ngrams import Ngrams
from relexify.progress import track

__all__ = ["HasMatrix", "Ngrams", "WordVectors"]

# Many at once, since each round may walk through the whole file; not all, since each word takes memory.
_WORDS_AT_ONCE = 1 << 16


class HasMatrix(Protocol):
    """Anything that carries a rotation as `matrix` [d × d']."""

    @property
    def matrix(self) -> np.ndarray:
        """[d × d'], for row vectors."""


@dataclass(frozen=True, eq=False)
class WordVectors:
    """Vectors of words, and of whatever fastText's n-grams can spell.

    Attributes:
        words: Most frequent first.
        matrix: The words' own rows [words × d], may be memory-mapped.
        counts: How often each word was seen, int64 [words], where known.
        ngrams: The character n-grams, where there are any.
        rotation: [d × d'], applied at lookup: a row v becomes v @ rotation.
    """

    words: Sequence[str]
    matrix: np.ndarray
    counts: np.ndarray | None = None
    ngrams: Ngrams | None = None
    rotation: np.ndarray | None = None

    @classmethod
    def load(cls, path: str | Path, *, limit: int | None = None) -> WordVectors:
        """Read word vectors of any supported format; see `load_vectors`."""
        from relexify.evidence.vectors.formats.loading import load_vectors

        return load_vectors(path, limit=limit)

    def save(self, path: str | Path, metadata: Mapping[str, Any] | None = None) -> Path:
        """Write them as one safetensors file; see `save_vectors`."""
        from relexify.evidence.vectors.formats.loading import save_vectors

        return save_vectors(self, path, metadata)

    def __len__(self) -> int:
        return len(self.words)

    @cached_property
    def index(self) -> dict[str, int]:
        """From a word to its row; of equal words the first counts."""
        return dict(zip(reversed(self.words), range(len(self.words) - 1, -1, -1), strict=True))

    @property
    def width(self) -> int:
        """The number of components of a vector that `lookup` returns."""
        return int((self.matrix if self.rotation is None else self.rotation).shape[1])

    def lookup(self, words: Sequence[str]) -> np.ndarray:
        """The vectors of any words, as fastText computes them.

        A vector is the mean of the word's own row, if it is in the vocabulary, and the rows of its n-grams. Of a
        mapped file only the rows needed are read.

        Args:
            words: Words, in any order; they need not be in the vocabulary.

        Returns:
            float32 [words × width]; a zero row where nothing is known of a word.

        Raises:
            InputError: A row that is needed holds NaN or infinity.
        """
        rotation = None if self.rotation is None else self.rotation.astype(np.float32)
        found = np.empty((len(words), self.width), np.float32)
        with track("looking up vectors", len(words)) as advance:
            for start in range(0, len(words), _WORDS_AT_ONCE):
                block = words[start : start + _WORDS_AT_ONCE]
                means = self._mean_rows(block)
                found[start : start + len(block)] = means if rotation is None else means @ rotation
                advance(len(block))
        return found

    def rotated(self, rotation: np.ndarray | HasMatrix) -> WordVectors:
        """The same vectors in another space: every row v becomes v @ rotation, when it is looked up.

        Args:
            rotation: [width × d'], or an object that carries it as `matrix`; it follows the rotation already there.
        """
        matrix = rotation if isinstance(rotation, np.ndarray) else rotation.matrix
        if matrix.ndim != 2 or len(matrix) != self.width:
            raise InputError(
                f"A rotation of shape {list(matrix.shape)} does not fit vectors of width {self.width}: "
                f"give one with {self.width} rows"
            )
        return replace(self, rotation=matrix if self.rotation is None else self.rotation @ matrix)

    def most_frequent(self, count: int) -> WordVectors:
        """Only the first `count` words; the n-grams stay."""
        counts = None if self.counts is None else self.counts[:count]
        return replace(self, words=self.words[:count], matrix=self.matrix[:count], counts=counts)

    def _mean_rows(self, words: Sequence[str]) -> np.ndarray:
        """Means over own rows and n-gram rows, before any rotation, float32 [words × d]."""
        own = np.fromiter((self.index.get(word, -1) for word in words), np.int64, len(words))
        known = np.flatnonzero(own >= 0).astype(np.int32)
        sums = np.zeros((len(words), self.matrix.shape[1]), np.float32)
        with np.errstate(invalid="ignore", over="ignore"):  # told below, in words
            add_rows(sums, known, self.matrix, own[known])
            if self.ngrams is not None:
                places, rows = self.ngrams.rows_of(words)
                add_rows(sums, places, self.ngrams.matrix, rows)
                sizes = np.bincount(places, minlength=len(words)) + (own >= 0)
                sums /= np.maximum(sizes, 1)[:, None].astype(np.float32)
        broken = np.flatnonzero(~np.isfinite(sums).all(axis=1))
        if len(broken):
            raise InputError(
                f"The vector of {words[broken[0]]!r} in {source_of(self.matrix)} holds NaN or infinity "
                f"({len(broken)} of {len(words)} words): get or train the file anew"
            )
        return sums
