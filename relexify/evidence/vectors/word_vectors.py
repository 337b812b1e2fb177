"""`WordVectors`: the vectors of words, with or without fastText's character n-grams, and their safetensors file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from relexify.errors import InputError
from relexify.evidence.vectors.mapped_rows import add_rows, source_of
from relexify.evidence.vectors.ngrams import Ngrams
from relexify.progress import track
from relexify.storage.arrays import load_arrays, save_arrays

__all__ = ["HasMatrix", "WordVectors", "load_saved_vectors"]

_KIND = "word vectors"

# Many words, because each block may read through the whole file; but not all, because each word takes memory.
_WORDS_AT_ONCE = 1 << 16


class HasMatrix(Protocol):
    """An object with a rotation as `matrix` [d × d']."""

    @property
    def matrix(self) -> np.ndarray:
        """The rotation [d × d']: a row v becomes v @ matrix."""


@dataclass(frozen=True, eq=False)
class WordVectors:
    """Vectors of words, and of any text that fastText's n-grams cover.

    Attributes:
        words: The words, most frequent first.
        matrix: The words' own rows [words × d], possibly memory-mapped.
        counts: How often each word was seen, int64 [words], if known.
        ngrams: The character n-grams, if any.
        rotation: A rotation [d × d'] that is applied at lookup: a row v becomes v @ rotation.
    """

    words: Sequence[str]
    matrix: np.ndarray
    counts: np.ndarray | None = None
    ngrams: Ngrams | None = None
    rotation: np.ndarray | None = None

    def __repr__(self) -> str:
        ngrams = ", with n-grams" if self.ngrams is not None else ""
        return f"WordVectors({len(self):,} words × {self.width}{ngrams})"

    @classmethod
    def load(cls, path: str | Path, *, limit: int | None = None) -> WordVectors:
        """Read word vectors of any supported format; see `load_vectors`."""
        # Imported here, because the readers import this module. This is the only import in that direction.
        from relexify.evidence.vectors.formats.loading import load_vectors

        return load_vectors(path, limit=limit)

    def save(self, path: str | Path, metadata: Mapping[str, Any] | None = None) -> Path:
        """Write one safetensors file; a rotation is stored in addition to the rows, not applied to them.

        Args:
            path: The file to write.
            metadata: Further data to store, such as the provenance.
        """
        # All words as one array of UTF-8 bytes [bytes]; the start of each word and the end of the last [words + 1].
        encoded = [word.encode("utf-8", "surrogatepass") for word in self.words]
        lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
        arrays = {
            "matrix": self.matrix,
            "words": np.frombuffer(b"".join(encoded), np.uint8),
            "offsets": np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        }
        described: dict[str, Any] = {"kind": _KIND, "ngrams": None}
        if self.counts is not None:
            arrays["counts"] = self.counts.astype(np.int64)
        if self.rotation is not None:
            arrays["rotation"] = self.rotation
        if (ngrams := self.ngrams) is not None:
            arrays["ngrams"] = ngrams.matrix
            described["ngrams"] = {"minimum": ngrams.minimum, "maximum": ngrams.maximum, "buckets": ngrams.buckets}
            if ngrams.known is not None:
                arrays["known"] = ngrams.known.astype(np.int64)
        return save_arrays(path, arrays, {**(metadata or {}), **described})

    def __len__(self) -> int:
        return len(self.words)

    @cached_property
    def index(self) -> dict[str, int]:
        """Row of each word; its first row if a word occurs twice."""
        return dict(zip(reversed(self.words), range(len(self.words) - 1, -1, -1), strict=True))

    @property
    def width(self) -> int:
        """The number of components of a vector that `lookup` returns."""
        return int((self.matrix if self.rotation is None else self.rotation).shape[1])

    def lookup(self, words: Sequence[str]) -> np.ndarray:
        """Return the vectors of any words, as fastText computes them.

        A vector is the mean of the word's own row, if it is in the vocabulary, and the rows of its n-grams. Only the
        needed rows of a memory-mapped file are read.

        Args:
            words: Words, in any order; they need not be in the vocabulary.

        Returns:
            float32 [words × width]; a zero row for a word without any evidence.

        Raises:
            InputError: A needed row contains NaN or infinity.
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
        """Return the vectors in another space: every row v becomes v @ rotation at lookup.

        Args:
            rotation: The rotation [width × d'], or an object that has it as `matrix`. An existing rotation is applied
                first.
        """
        matrix = rotation if isinstance(rotation, np.ndarray) else rotation.matrix
        if matrix.ndim != 2 or len(matrix) != self.width:
            raise InputError(
                f"A rotation of shape {list(matrix.shape)} does not fit vectors of width {self.width}: "
                f"give a rotation with {self.width} rows"
            )
        return replace(self, rotation=matrix if self.rotation is None else self.rotation @ matrix)

    def most_frequent(self, count: int) -> WordVectors:
        """Return the vectors of only the first `count` words; all n-grams are kept."""
        counts = None if self.counts is None else self.counts[:count]
        return replace(self, words=self.words[:count], matrix=self.matrix[:count], counts=counts)

    def _mean_rows(self, words: Sequence[str]) -> np.ndarray:
        """Return the means over own rows and n-gram rows, before any rotation, float32 [words × d]."""
        own = np.fromiter((self.index.get(word, -1) for word in words), np.int64, len(words))
        positions = np.flatnonzero(own >= 0).astype(np.int32)
        sums = np.zeros((len(words), self.matrix.shape[1]), np.float32)
        with np.errstate(invalid="ignore", over="ignore"):  # reported below
            add_rows(sums, positions, self.matrix, own[positions])
            if self.ngrams is not None:
                positions, rows = self.ngrams.rows_of(words)
                add_rows(sums, positions, self.ngrams.matrix, rows)
                sizes = np.bincount(positions, minlength=len(words)) + (own >= 0)
                sums /= np.maximum(sizes, 1)[:, None].astype(np.float32)
        broken = np.flatnonzero(~np.isfinite(sums).all(axis=1))
        if len(broken):
            raise InputError(
                f"The vector of {words[broken[0]]!r} in {source_of(self.matrix)} holds NaN or infinity "
                f"({len(broken)} of {len(words)} words): download or train the file again"
            )
        return sums


def load_saved_vectors(path: Path) -> WordVectors:
    """Read a file that `WordVectors.save` wrote.

    Raises:
        InputError: The file is damaged, or of another kind.
    """
    arrays, metadata = load_arrays(path, _KIND)
    for name in ("words", "offsets", "counts", "known"):
        if name in arrays and (arrays[name].ndim != 1 or arrays[name].dtype.kind not in "iu"):
            raise InputError(f"{path} is damaged ({name} is not a list of integers): write it again")
    try:
        text, offsets = arrays["words"].tobytes(), arrays["offsets"].tolist()
        if offsets != sorted(offsets) or offsets[:1] + offsets[-1:] != [0, len(text)]:
            raise ValueError("words and their offsets do not fit each other")
        words = [text[start:end].decode("utf-8", "surrogatepass") for start, end in pairwise(offsets)]
        matrix, counts, rotation = arrays["matrix"], arrays.get("counts"), arrays.get("rotation")
        described = metadata["ngrams"]
        ngrams = Ngrams(arrays["ngrams"], **described, known=arrays.get("known")) if described else None
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path} is not a complete file of word vectors ({error}): write it again") from error
    _validate_shapes(path, matrix, rotation, ngrams)
    if len(words) != len(matrix) or (counts is not None and len(counts) != len(words)):
        raise InputError(f"{path} holds {len(words)} words and {len(matrix)} rows: write it again")
    return WordVectors(words, matrix, counts, ngrams, rotation)


def _validate_shapes(path: Path, matrix: np.ndarray, rotation: np.ndarray | None, ngrams: Ngrams | None) -> None:
    """Validate that the arrays of a file fit each other, because lookups rely on it."""
    valid = matrix.ndim == 2 and matrix.dtype.kind == "f"
    if valid and rotation is not None:
        valid = rotation.ndim == 2 and rotation.dtype.kind == "f" and len(rotation) == matrix.shape[1]
    if valid and ngrams is not None:
        numbers = (ngrams.minimum, ngrams.maximum, ngrams.buckets)
        rows = ngrams.buckets if ngrams.known is None else len(ngrams.known)
        valid = all(type(number) is int and 0 < number < 2**32 for number in numbers) and (
            ngrams.minimum <= ngrams.maximum
            and ngrams.matrix.shape == (rows, matrix.shape[1])
            and ngrams.matrix.dtype.kind == "f"
        )
    if not valid:
        raise InputError(f"{path} is damaged (matrix, rotation and n-grams do not fit each other): write it again")
