"""fastText's character n-grams, hashed for many words at once.

fastText wraps a word in `<` and `>` and takes every run of `minimum` to `maximum` characters, except a lone `<` or `>`.
The UTF-8 bytes of a run are hashed with 32-bit FNV-1a, each byte extended *with its sign*. The bucket is the hash
modulo the number of buckets.
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
# In fastText, the end of a sentence has its own row but no n-grams. An empty text, such as white space or a part of a
# character, would otherwise get the row of `<>`.
_WITHOUT_NGRAMS = ("</s>", "")


@dataclass(frozen=True, eq=False)
class Ngrams:
    """fastText's character n-grams.

    Attributes:
        matrix: The rows of the n-grams [rows × d], possibly memory-mapped.
        minimum: The shortest n-gram, in characters.
        maximum: The longest n-gram, in characters.
        buckets: The number of hash buckets.
        known: The sorted bucket ids of the rows; if None, all buckets have a row, in order.
    """

    matrix: np.ndarray
    minimum: int
    maximum: int
    buckets: int
    known: np.ndarray | None = None

    def rows_of(self, words: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows of the n-grams of all words, in order of the words.

        N-grams with unknown buckets are left out; `</s>` and an empty text have no n-grams.

        Returns:
            `(positions, rows)`, int32 [n-grams] each: the word at `positions[i]` has an n-gram in row `rows[i]`.
        """
        positions, rows = [np.zeros(0, np.int32)], [np.zeros(0, np.int32)]
        for start, end in _blocks(words):
            block = words[start:end]
            indptr, ids = ngram_buckets(block, self.minimum, self.maximum, self.buckets)
            inside = np.repeat(np.arange(len(block), dtype=np.int32), np.diff(indptr))
            found, kept = self.rows_of_buckets(ids)
            kept &= np.array([word not in _WITHOUT_NGRAMS for word in block])[inside]
            positions.append(start + inside[kept])
            rows.append(found[kept].astype(np.int32))
        return np.concatenate(positions), np.concatenate(rows)

    def rows_of_buckets(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows of buckets, and whether each bucket has a row, int64 and bool [ids]."""
        if self.known is None:
            return ids, np.ones(len(ids), bool)
        rows = np.searchsorted(self.known, ids)
        return rows, np.append(self.known, -1)[rows] == ids


def ngram_buckets(words: Sequence[str], minimum: int, maximum: int, buckets: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the bucket of every character n-gram of every word, in fastText's order.

    Args:
        words: Words without their boundary marks.
        minimum: The shortest n-gram, in characters.
        maximum: The longest n-gram, in characters.
        buckets: The number of hash buckets.

    Returns:
        `(indptr, ids)`: word i has the buckets `ids[indptr[i]:indptr[i + 1]]`; int64 [words + 1] and [n-grams].
    """
    lengths = np.fromiter((len(word) + 2 for word in words), np.int64, len(words))
    word_ends = np.cumsum(lengths)
    shortest, longest = max(minimum, 1), min(maximum, int(lengths.max(initial=0)))
    if longest < shortest or buckets <= 0:
        return np.zeros(len(words) + 1, np.int64), np.zeros(0, np.int64)

    # A lone surrogate is not valid UTF-8; with `surrogatepass`, it is one character of three bytes.
    text = "".join([f"<{word}>" for word in words]).encode("utf-8", "surrogatepass")
    room = np.repeat(word_ends, lengths) - np.arange(word_ends[-1])  # characters from here to the word's end
    hashes = _hash_runs(np.frombuffer(text, np.uint8), room, shortest, longest)
    kept = room[:, None] >= np.arange(shortest, longest + 1)
    if shortest == 1:
        # A lone `<` or `>` is not an n-gram.
        kept[np.concatenate([word_ends - lengths, word_ends - 1]), 0] = False

    per_word = np.add.reduceat(kept.sum(axis=1), word_ends - lengths)
    indptr = np.concatenate([[0], np.cumsum(per_word)]).astype(np.int64)
    return indptr, (hashes[kept] % np.uint32(buckets)).astype(np.int64)


def _hash_runs(data: np.ndarray, room: np.ndarray, shortest: int, longest: int) -> np.ndarray:
    """Hash the runs of `shortest` to `longest` characters that start at each character.

    The hash of a run of n + 1 characters continues the hash of the first n, so each length takes only one pass over the
    bytes of the last characters.

    Args:
        data: UTF-8 bytes [bytes].
        room: Characters from each character to the end of its word [characters].
        shortest: Length of the shortest run.
        longest: Length of the longest run.

    Returns:
        uint32 [characters × lengths]; undefined if a run is longer than the rest of its word.
    """
    # fastText computes `h ^ uint32_t(int8_t(byte))`: bytes above 127 are sign-extended.
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


def _blocks(words: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield ranges of words with a bounded number of characters, so that memory is bounded too."""
    ends = np.cumsum(np.fromiter((len(word) + 2 for word in words), np.int64, len(words)))
    start = 0
    while start < len(words):
        limit = (ends[start - 1] if start else 0) + _CHARACTERS_AT_ONCE
        end = max(int(np.searchsorted(ends, limit, side="right")), start + 1)
        yield start, end
        start = end
