"""fastText's character n-grams, hashed for many words at once.

fastText wraps a word in `<` and `>`, takes every run of `minimum` to `maximum` characters (a lone `<` or `>` excepted)
and hashes its UTF-8 bytes with 32-bit FNV-1a, each byte extended *with its sign*, modulo the number of buckets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["Ngrams", "ngram_buckets"]

_FNV_OFFSET = np.uint32(2166136261)
_FNV_PRIME = np.uint32(16777619)
_LONGEST_CHARACTER = 4  # bytes, in UTF-8
_CHARACTERS_AT_ONCE = 1 << 18
_END_OF_SENTENCE = "</s>"  # fastText gives it a row of its own and no n-grams


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
        """Which rows stand for the n-grams of which words, word after word.

        An n-gram whose bucket is not known is left out, and `</s>` has none.

        Returns:
            `(places, rows)`: int32 [n-grams] each; the word at `places[i]` has an n-gram in row `rows[i]`.
        """
        found = [(start, *self._rows_of_block(words[start:end])) for start, end in _blocks(words)]
        places = [start + inside for start, inside, _ in found]
        empty = np.zeros(0, np.int32)
        return np.concatenate([empty, *places]), np.concatenate([empty, *(rows for _, _, rows in found)])

    def _rows_of_block(self, words: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        indptr, ids = ngram_buckets(words, self.minimum, self.maximum, self.buckets)
        places = np.repeat(np.arange(len(words), dtype=np.int32), np.diff(indptr))
        kept = np.array([word != _END_OF_SENTENCE for word in words])[places]
        rows = ids
        if self.known is not None:
            rows = np.searchsorted(self.known, ids)
            kept &= np.append(self.known, -1)[rows] == ids
        return places[kept], rows[kept].astype(np.int32)


def ngram_buckets(words: Sequence[str], minimum: int, maximum: int, buckets: int) -> tuple[np.ndarray, np.ndarray]:
    """The bucket of every character n-gram of every word, in fastText's order.

    Args:
        words: Words without their boundary marks.
        minimum: The shortest n-gram, in characters.
        maximum: The longest n-gram, in characters.
        buckets: The hash modulus.

    Returns:
        `(indptr, ids)`: word i has the buckets `ids[indptr[i]:indptr[i + 1]]`; int64 [words + 1] and [n-grams].
    """
    lengths = np.fromiter((len(word) + 2 for word in words), np.int64, len(words))
    word_ends = np.cumsum(lengths)
    shortest, longest = max(minimum, 1), min(maximum, int(lengths.max(initial=0)))
    if longest < shortest or buckets <= 0:
        return np.zeros(len(words) + 1, np.int64), np.zeros(0, np.int64)

    # A lone surrogate cannot be written as UTF-8; passed through, it still is one character of three bytes.
    text = "".join([f"<{word}>" for word in words]).encode("utf-8", "surrogatepass")
    room = np.repeat(word_ends, lengths) - np.arange(word_ends[-1])  # characters from here to the word's end
    hashes = _hash_runs(np.frombuffer(text, np.uint8), room, shortest, longest)
    kept = room[:, None] >= np.arange(shortest, longest + 1)
    if shortest == 1:
        kept[:, 0] &= ~_boundary_marks(word_ends)

    per_word = np.add.reduceat(kept.sum(axis=1), word_ends - lengths)
    indptr = np.concatenate([[0], np.cumsum(per_word)]).astype(np.int64)
    return indptr, (hashes[kept] % np.uint32(buckets)).astype(np.int64)


def _hash_runs(data: np.ndarray, room: np.ndarray, shortest: int, longest: int) -> np.ndarray:
    """Hashes of the runs of `shortest` to `longest` characters from each character on.

    Args:
        data: UTF-8 bytes [bytes].
        room: Characters left in the word, from each character on [characters].
        shortest: The shortest run wanted.
        longest: The longest run wanted.

    Returns:
        uint32 [characters × lengths]; where a run leaves its word the number means nothing.
    """
    signed = data.view(np.int8).astype(np.int32).view(np.uint32)
    starts = np.flatnonzero((data & 0xC0) != 0x80)
    sizes = np.diff(starts, append=len(data))
    running = np.full(len(starts), _FNV_OFFSET, np.uint32)
    hashes = np.empty((len(starts), longest - shortest + 1), np.uint32)
    for length in range(1, longest + 1):
        active = np.flatnonzero(room >= length)
        last = active + length - 1
        for byte in range(_LONGEST_CHARACTER):
            longer = sizes[last] > byte
            active, last = active[longer], last[longer]
            running[active] = (running[active] ^ signed[starts[last] + byte]) * _FNV_PRIME
        if length >= shortest:
            hashes[:, length - shortest] = running
    return hashes


def _boundary_marks(word_ends: np.ndarray) -> np.ndarray:
    """Which characters are the `<` or `>` put around a word, as booleans [characters]."""
    marks = np.zeros(word_ends[-1], bool)
    marks[word_ends - 1] = True
    marks[0] = True
    marks[word_ends[:-1]] = True
    return marks


def _blocks(words: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Cut the words into stretches of bounded length in characters, so that memory stays bounded too."""
    ends = np.cumsum(np.fromiter((len(word) + 2 for word in words), np.int64, len(words)))
    start = 0
    while start < len(words):
        limit = (ends[start - 1] if start else 0) + _CHARACTERS_AT_ONCE
        end = max(int(np.searchsorted(ends, limit, side="right")), start + 1)
        yield start, end
        start = end
