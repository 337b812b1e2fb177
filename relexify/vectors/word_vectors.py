"""Word vectors, with or without fastText's character n-grams: the noun of this room."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from scipy.sparse import csr_array

from relexify.errors import InputError
from relexify.progress import Progress, silent
from relexify.vectors.mapped_rows import gather_rows, source_of
from relexify.vectors.ngrams import ngram_buckets

__all__ = ["HasMatrix", "Ngrams", "WordVectors"]

_END_OF_SENTENCE = "</s>"  # fastText gives it a row of its own and no n-grams
_CHARACTERS_AT_ONCE = 1 << 17


class HasMatrix(Protocol):
    """Anything that carries a rotation as `matrix` [d × d']."""

    @property
    def matrix(self) -> np.ndarray:
        """[d × d'], for row vectors."""


@dataclass(frozen=True, eq=False)
class Ngrams:
    """fastText's character n-grams.

    Attributes:
        matrix: [rows × d], may be memory-mapped.
        minimum: The shortest n-gram, in characters.
        maximum: The longest n-gram, in characters.
        buckets: The hash modulus.
        known: The sorted bucket ids the rows stand for; `None`: row b is bucket b, for all buckets.
    """

    matrix: np.ndarray
    minimum: int
    maximum: int
    buckets: int
    known: np.ndarray | None = None

    def rows_of(self, words: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """The rows of the words' n-grams, as `(indptr, rows)`; an n-gram whose bucket is not known is left out."""
        indptr, rows = ngram_buckets(words, self.minimum, self.maximum, self.buckets)
        kept = np.repeat([word != _END_OF_SENTENCE for word in words], np.diff(indptr))
        if self.known is not None:
            ids, rows = rows, np.searchsorted(self.known, rows)
            inside = rows < len(self.known)
            kept[~inside] = False
            kept[inside] &= self.known[rows[inside]] == ids[inside]
        return np.concatenate([[0], np.cumsum(kept)])[indptr], rows[kept]


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
        from relexify.vectors.loading import load_vectors

        return load_vectors(path, limit=limit)

    def save(self, path: str | Path, metadata: Mapping[str, Any] | None = None) -> Path:
        """Write them as one safetensors file; see `save_vectors`."""
        from relexify.vectors.loading import save_vectors

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

    def lookup(self, words: Sequence[str], *, progress: Progress = silent) -> np.ndarray:
        """The vectors of any words, as fastText computes them.

        A vector is the mean of the word's own row, if it is in the vocabulary, and the rows of its n-grams. Of a
        mapped file only the rows needed are read.

        Args:
            words: Words, in any order; they need not be in the vocabulary.
            progress: Told of every word.

        Returns:
            float32 [words × width]; a zero row where nothing is known of a word.

        Raises:
            InputError: A row that is needed holds NaN or infinity.
        """
        found = np.empty((len(words), self.width), np.float32)
        with progress("looking up vectors", len(words)) as advance:
            for start, end in _blocks(words):
                block = words[start:end]
                vectors = self._mean_rows(block)
                found[start:end] = vectors if self.rotation is None else vectors @ self.rotation.astype(np.float32)
                advance(end - start)
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
        known = np.flatnonzero(own >= 0)
        rows, places = np.unique(own[known], return_inverse=True)
        means = np.zeros((len(words), self.matrix.shape[1]), np.float32)
        means[known] = gather_rows(self.matrix, rows)[places]
        with np.errstate(invalid="ignore", over="ignore"):  # told below, in words
            if self.ngrams is not None:
                sums, sizes = _sum_ngrams(self.ngrams, words)
                means = (means + sums) / np.maximum(sizes + (own >= 0), 1)[:, None].astype(np.float32)
        broken = np.flatnonzero(~np.isfinite(means).all(axis=1))
        if len(broken):
            raise InputError(
                f"The vector of {words[broken[0]]!r} in {source_of(self.matrix)} holds NaN or infinity "
                f"({len(broken)} of {len(words)} words): the file is damaged or its training failed; get or train it anew"
            )
        return means


def _sum_ngrams(ngrams: Ngrams, words: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Sums over the words' n-gram rows, float32 [words × d], and how many rows went into each, int64 [words]."""
    indptr, rows = ngrams.rows_of(words)
    needed, columns = np.unique(rows, return_inverse=True)
    uses = csr_array((np.ones(len(rows), np.float32), columns, indptr), shape=(len(words), len(needed)))
    return uses @ gather_rows(ngrams.matrix, needed), np.diff(indptr)


def _blocks(words: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Cut the words into stretches of bounded length in characters, so that memory stays bounded too."""
    ends = np.cumsum(np.fromiter((len(word) + 2 for word in words), np.int64, len(words)))
    start = 0
    while start < len(words):
        limit = (ends[start - 1] if start else 0) + _CHARACTERS_AT_ONCE
        end = max(int(np.searchsorted(ends, limit, side="right")), start + 1)
        yield start, end
        start = end
