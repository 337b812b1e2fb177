"""The text that word vectors are trained on: lists of words, which several processes can make of its lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from relexify.processes import map_in_order

__all__ = ["Sentences", "SplitText", "map_sentences", "split_long_sentences"]

Sentences = Callable[[], Iterable[list[str]]]
"""Starts one pass over a text: lists of words, in order. For a `SplitText`, several processes split the lines."""

_LONGEST_SENTENCE = 10_000  # words; gensim silently drops the rest of a longer sentence
_BATCH = 1_000_000
"""Characters of text in a batch,"""
_BATCH_WORDS = 200_000
"""or words of a text that is split already."""

Result = TypeVar("Result")


@dataclass(frozen=True)
class SplitText:
    """A text, and the function that splits a line of it into words; `Sentences` that several processes can make.

    Attributes:
        lines: The lines, which can be read repeatedly, as those of a `Corpus`.
        split: Returns the words of a line.
    """

    lines: Iterable[str]
    split: Callable[[str], list[str]]

    def __call__(self) -> Iterator[list[str]]:
        """Start one pass over the text."""
        return map(self.split, self.lines)


def map_sentences(function: Callable[[list[list[str]]], Result], sentences: Sentences) -> Iterator[Result]:
    """Yield the results of a function for all sentences, some at a time, in order.

    Args:
        function: As for `map_in_order`.
        sentences: The text.
    """
    if not isinstance(sentences, SplitText):
        return map(function, _batches(sentences(), _BATCH_WORDS))
    return map_in_order(_OfLines(sentences.split, function), _batches(sentences.lines, _BATCH))


def split_long_sentences(sentences: Iterable[list[str]]) -> Iterator[list[str]]:
    """Yield the same words in lists that are short enough for gensim."""
    for sentence in sentences:
        for start in range(0, len(sentence), _LONGEST_SENTENCE):
            yield sentence[start : start + _LONGEST_SENTENCE]


@dataclass(frozen=True)
class _OfLines(Generic[Result]):
    """Splits lines, and returns the result of a function for the lists of words."""

    split: Callable[[str], list[str]]
    function: Callable[[list[list[str]]], Result]

    def __call__(self, lines: list[str]) -> Result:
        return self.function([self.split(line) for line in lines])


Sized = TypeVar("Sized", str, list[str])


def _batches(texts: Iterable[Sized], size: int) -> Iterator[list[Sized]]:
    """Yield texts until their lengths add up to `size` or more; then those that follow."""
    batch: list[Sized] = []
    length = 0
    for text in texts:
        batch.append(text)
        length += len(text)
        if length >= size:
            yield batch
            batch, length = [], 0
    if batch:
        yield batch
