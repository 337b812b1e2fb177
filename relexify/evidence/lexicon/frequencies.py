"""Word frequencies: from vectors with counts, from text, from a file, or from the package wordfreq.

All functions return a mapping from word to weight. Only ratios matter to the callers, so counts, shares and estimates
are interchangeable, but should not be mixed in one computation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from relexify.errors import InputError, MissingExtra
from relexify.evidence.lexicon.reading import read_two_columns

__all__ = ["CountedWords", "count_words", "package_frequencies", "read_frequencies", "vector_frequencies"]


class CountedWords(Protocol):
    """Words, most frequent first, with their counts if known, such as `WordVectors`."""

    @property
    def words(self) -> Sequence[str]:
        """The words, most frequent first."""

    @property
    def counts(self) -> np.ndarray | None:
        """How often each was seen, [words]."""


def vector_frequencies(vectors: CountedWords) -> dict[str, float]:
    """Return the frequencies of the words of a set of vectors.

    Without counts, Zipf's law is used: the word of rank r (from 1) has the weight 1/r. This needs words that are sorted
    by frequency, as they are in the usual files. If a word occurs twice, the first counts.
    """
    counts = vectors.counts
    if counts is None or not np.any(counts):
        counts = 1.0 / np.arange(1, len(vectors.words) + 1)
    weights = np.asarray(counts, dtype=np.float64).tolist()
    return dict(zip(reversed(vectors.words), reversed(weights), strict=True))


def count_words(texts: Iterable[Iterable[str]]) -> dict[str, float]:
    """Count the words of texts that are already split into words."""
    counts: Counter[str] = Counter()
    for words in texts:
        counts.update(words)
    return {word: float(count) for word, count in counts.items()}


def read_frequencies(path: Path) -> dict[str, float]:
    """Read a list of words and their counts or shares, one word on each line.

    Raises:
        InputError: The file cannot be read, or has something else than a number after a word.
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
        raise InputError(f"{path} has no word that occurs: give one word and its count on each line")
    return frequencies


def package_frequencies(language: str) -> dict[str, float]:
    """Return the relative frequencies of a language's words, from the package wordfreq.

    Args:
        language: A code such as `"de"` or `"pt-BR"`.

    Raises:
        MissingExtra: The package is not installed.
        InputError: It has no list for the language. (By itself it would return English words for Swahili.)
    """
    try:
        import wordfreq
    except ImportError as error:
        raise MissingExtra("wordfreq", "a list of word frequencies", "frequencies") from error
    code = language.lower().replace("_", "-").partition("-")[0]
    languages = wordfreq.available_languages()
    if code not in languages:
        raise InputError(
            f"wordfreq has no word list for {language!r} (it has {', '.join(sorted(languages))}): count the words of "
            "your own text instead, or use vectors with counts"
        )
    frequencies: dict[str, float] = wordfreq.get_frequency_dict(code)
    return dict(frequencies)
