"""Word frequencies: from vectors with counts, or from a file.

Both functions return a mapping from word to weight. Only ratios matter to the callers, so counts, shares and estimates
are interchangeable, but should not be mixed in one computation.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from relexify.errors import InputError
from relexify.evidence.lexicon.reading import read_two_columns

__all__ = ["CountedWords", "read_frequencies", "vector_frequencies"]


class CountedWords(Protocol):
    """Words, most frequent first, with their counts if known, such as `WordVectors`."""

    @property
    def words(self) -> Sequence[str]:
        """The words, most frequent first."""

    @property
    def counts(self) -> np.ndarray | None:
        """How often each word was seen [words]; None if unknown."""


def vector_frequencies(vectors: CountedWords) -> dict[str, float]:
    """Return the frequencies of the words of a set of vectors.

    Without counts, Zipf's law is used: the word of rank r (from 1) has the weight 1/r. This needs words that are sorted
    by frequency, as they are in the usual files. If a word occurs twice, its first occurrence is used.
    """
    counts = vectors.counts
    if counts is None or not np.any(counts):
        counts = 1.0 / np.arange(1, len(vectors.words) + 1)
    weights = np.asarray(counts, dtype=np.float64).tolist()
    return dict(zip(reversed(vectors.words), reversed(weights), strict=True))


def read_frequencies(path: Path) -> dict[str, float]:
    """Read a list of words and their counts or shares, one word on each line.

    Raises:
        InputError: The file cannot be read, or a word is not followed by a number of 0 or more.
    """
    frequencies = {}
    for word, count in read_two_columns(path):
        try:
            frequencies[word] = float(count)
        except ValueError:
            frequencies[word] = -1.0
        if not 0 <= frequencies[word] < float("inf"):
            raise InputError(f"{path}: the frequency of {word!r} is {count!r}: give a number of 0 or more")
    if not any(frequencies.values()):
        raise InputError(f"{path} has no word with a count above 0: give a word and its count on each line")
    return frequencies
