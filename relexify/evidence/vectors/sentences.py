"""The text that vectors are trained on: lists of words or tokens, which several processes can make of its lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Generic, TypeVar

from relexify.processes import map_in_order
from relexify.storage.shards import Shards

__all__ = [
    "BATCH",
    "EachLine",
    "Sentences",
    "SplitText",
    "batches_of",
    "map_sentences",
    "of_lines",
    "split_long_sentences",
]

Sentences = Callable[[], Iterable[list[str]]]
"""Starts one pass over a text: lists of words, in order. For a `SplitText`, several processes split the lines."""

_LONGEST_SENTENCE = 10_000  # words; gensim silently drops the rest of a longer sentence
BATCH = 1_000_000
"""Characters of text in a batch,"""
_BATCH_WORDS = 200_000
"""or words of a text that is split already."""

Result = TypeVar("Result")


@dataclass(frozen=True)
class SplitText:
    """A text, and the function that splits its lines into words; `Sentences` that several processes can make.

    Attributes:
        lines: The lines, which can be read repeatedly, as those of a `Corpus`.
        split: Returns the words of each of some lines; `EachLine` makes it of a function of one line.
        shards: If given, hosts that work on it together count a share of the text each, and exchange their counts here.
            They belong to this text and one choice of options.
    """

    lines: Iterable[str]
    split: Callable[[list[str]], Iterable[list[str]]]
    shards: Shards | None = None

    def __call__(self) -> Iterator[list[str]]:
        """Start one pass over the text."""
        return chain.from_iterable(map(self.split, batches_of(self.lines)))


@dataclass(frozen=True)
class EachLine:
    """Splits lines one by one.

    Attributes:
        split: Returns the words of a line.
    """

    split: Callable[[str], list[str]]

    def __call__(self, lines: list[str]) -> list[list[str]]:
        """Return the words of each line."""
        return [self.split(line) for line in lines]


def map_sentences(function: Callable[[list[list[str]]], Result], sentences: Sentences) -> Iterator[Result]:
    """Yield the results of a function for all sentences, some at a time, in order.

    Args:
        function: As for `map_in_order`.
        sentences: The text.
    """
    if not isinstance(sentences, SplitText):
        return map(function, _batches(sentences(), _BATCH_WORDS))
    return map_in_order(of_lines(sentences, function), batches_of(sentences.lines))


def of_lines(text: SplitText, function: Callable[[list[list[str]]], Result]) -> Callable[[list[str]], Result]:
    """Return a function of lines of a text, given one of their words; it can be pickled if its parts can."""
    return _OfLines(text.split, function)


def batches_of(lines: Iterable[str]) -> Iterator[list[str]]:
    """Yield some lines at a time, about a megabyte."""
    return _batches(lines, BATCH)


def split_long_sentences(sentences: Iterable[list[str]]) -> Iterator[list[str]]:
    """Yield the same words in lists that are short enough for gensim."""
    for sentence in sentences:
        for start in range(0, len(sentence), _LONGEST_SENTENCE):
            yield sentence[start : start + _LONGEST_SENTENCE]


@dataclass(frozen=True)
class _OfLines(Generic[Result]):
    """Splits lines, and returns the result of a function for the lists of words."""

    split: Callable[[list[str]], Iterable[list[str]]]
    function: Callable[[list[list[str]]], Result]

    def __call__(self, lines: list[str]) -> Result:
        return self.function(list(self.split(lines)))


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
