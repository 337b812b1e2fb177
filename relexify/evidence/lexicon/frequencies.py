"""How often words occur: from vectors that counted them, from text, or from the package wordfreq.

All functions return a mapping from word to weight. Only ratios matter to the callers, so counts, shares and estimates
can stand in for each other, but should not be mixed in one computation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np

from relexify.errors import InputError, MissingExtra

__all__ = ["CountedWords", "count_words", "package_frequencies", "vector_frequencies"]


class CountedWords(Protocol):
    """Words, most frequent first, with their counts where these are known; `WordVectors` is one."""

    @property
    def words(self) -> Sequence[str]:
        """The words, most frequent first."""

    @property
    def counts(self) -> np.ndarray | None:
        """How often each was seen, [words]."""


def vector_frequencies(vectors: CountedWords) -> dict[str, float]:
    """The frequencies of the words of a set of vectors.

    Where the vectors carry no counts, Zipf's law stands in: the word of rank r (from 1) weighs 1/r. That relies on
    the words being sorted by frequency, as they are in the usual files. Of equal words the first counts.
    """
    counts = vectors.counts
    if counts is None or not np.any(counts):
        counts = 1.0 / np.arange(1, len(vectors.words) + 1)
    weights = np.asarray(counts, dtype=np.float64).tolist()
    return dict(zip(reversed(vectors.words), reversed(weights), strict=True))


def count_words(texts: Iterable[Iterable[str]]) -> dict[str, float]:
    """Count the words of texts that are already cut into words."""
    counts: Counter[str] = Counter()
    for words in texts:
        counts.update(words)
    return {word: float(count) for word, count in counts.items()}


def package_frequencies(language: str) -> dict[str, float]:
    """The shares of a language's words in running text, from the package wordfreq.

    Args:
        language: A code such as `"de"` or `"pt-BR"`.

    Raises:
        MissingExtra: The package is not installed.
        InputError: It has no list for the language. (Left to itself, it would answer for Swahili with English.)
    """
    try:
        import wordfreq
    except ImportError as error:
        raise MissingExtra("wordfreq", "a ready-made list of word frequencies", "frequencies") from error
    code = language.lower().replace("_", "-").partition("-")[0]
    languages = wordfreq.available_languages()
    if code not in languages:
        raise InputError(
            f"wordfreq has no word list for {language!r} (it has {', '.join(sorted(languages))}): count the words of "
            "your own text instead, or use vectors that carry counts"
        )
    frequencies: dict[str, float] = wordfreq.get_frequency_dict(code)
    return dict(frequencies)
