"""The text that vectors are trained on: lists of words or tokens; several processes can split the lines."""

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
"""Starts one pass over a text, and yields lists of words in order. A `SplitText` is split by several processes."""

_LONGEST_SENTENCE = 10_000  # words; gensim silently drops the rest of a longer sentence
BATCH = 1_000_000
"""Number of characters of text in a batch."""
_BATCH_WORDS = 200_000
"""Number of words in a batch of a text that is already split."""

Result = TypeVar("Result")


@dataclass(frozen=True)
class SplitText:
    """`Sentences` that several processes can split: a text, and the function that splits its lines into words.

    Attributes:
        lines: The lines, which can be read repeatedly, such as a `Corpus`.
        split: Takes some lines, and returns the words of each; `EachLine` turns a function of one line into this.
        shards: If given, each of several hosts counts a share of the text, and they exchange their counts here. Shards
            are specific to this text and to one choice of options.
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
    """Apply a function to batches of sentences, and yield the results in order.

    Args:
        function: As for `map_in_order`.
        sentences: The text.
    """
    if not isinstance(sentences, SplitText):
        return map(function, _batches(sentences(), _BATCH_WORDS))
    return map_in_order(of_lines(sentences, function), batches_of(sentences.lines))


def of_lines(text: SplitText, function: Callable[[list[list[str]]], Result]) -> Callable[[list[str]], Result]:
    """Turn a function of lists of words into a function of lines; it can be pickled if its parts can be pickled."""
    return _OfLines(text.split, function)


def batches_of(lines: Iterable[str]) -> Iterator[list[str]]:
    """Yield batches of lines, of about a megabyte each."""
    return _batches(lines, BATCH)


def split_long_sentences(sentences: Iterable[list[str]]) -> Iterator[list[str]]:
    """Split sentences that are too long for gensim."""
    for sentence in sentences:
        for start in range(0, len(sentence), _LONGEST_SENTENCE):
            yield sentence[start : start + _LONGEST_SENTENCE]


@dataclass(frozen=True)
class _OfLines(Generic[Result]):
    """Splits lines, and applies a function to the lists of words."""

    split: Callable[[list[str]], Iterable[list[str]]]
    function: Callable[[list[list[str]]], Result]

    def __call__(self, lines: list[str]) -> Result:
        return self.function(list(self.split(lines)))


Sized = TypeVar("Sized", str, list[str])


def _batches(texts: Iterable[Sized], size: int) -> Iterator[list[Sized]]:
    """Yield batches of texts; a batch ends when the lengths of its texts add up to at least `size`."""
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
