"""Parallel text encoded with two tokenizers."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate, islice, pairwise
from math import log
from typing import TYPE_CHECKING, Literal

import numpy as np
from tokenizers import Encoding

from relexify.errors import EvidenceError
from relexify.evidence.bitext.bitext import Bitext
from relexify.progress import track
from relexify.tokens import copy_backend, encoder_of

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

__all__ = ["EncodedBitext", "Side", "Units", "encode_bitext", "looks_swapped"]

Units = Literal["tokens", "words"]
"""The units that links connect: tokens, or words separated by white space."""

_LINES_AT_ONCE = 1000
_SAMPLE = 2000  # complete pairs from which swapped languages are detected
_CLEAR_EXCESS = log(1.1)  # 10 % more tokens; smaller differences are noise


@dataclass(frozen=True, eq=False)
class Side:
    """One language of a bitext: lines of units, units of tokens.

    Attributes:
        ids: The tokens in order, int32 [tokens].
        units: Index of the first token of each unit, and the end of the last unit, int64 [units + 1].
        lines: Index of the first unit of each line, and the end of the last line, int64 [lines + 1].
    """

    ids: np.ndarray
    units: np.ndarray
    lines: np.ndarray

    @property
    def lengths(self) -> np.ndarray:
        """Number of units in each line, int64 [lines]."""
        return np.diff(self.lines)


@dataclass(frozen=True)
class EncodedBitext:
    """A bitext in the tokens of two vocabularies; both sides have the same number of lines.

    Attributes:
        source: The source language.
        target: The target language.
    """

    source: Side
    target: Side

    def __len__(self) -> int:
        return len(self.source.lines) - 1


def encode_bitext(
    bitext: Bitext,
    source_tokenizer: PreTrainedTokenizerFast,
    target_tokenizer: PreTrainedTokenizerFast,
    *,
    units: Units = "tokens",
    most_pairs: int | None = None,
) -> EncodedBitext:
    """Tokenise both sides, each with its own tokenizer.

    Args:
        bitext: Pairs; an incomplete line is kept as a line without units.
        source_tokenizer: The tokenizer of the source language.
        target_tokenizer: The tokenizer of the target language.
        units: The units that links will connect.
        most_pairs: Use at most this many lines, evenly spread over the text.
    """
    lines, chosen = bitext.sample(most_pairs)
    source, target = _SideBuilder(source_tokenizer, units), _SideBuilder(target_tokenizer, units)
    with track("tokenising pairs", lines) as advance:
        while block := list(islice(chosen, _LINES_AT_ONCE)):
            source.add([sentence for sentence, _ in block])
            target.add([sentence for _, sentence in block])
            advance(len(block))
    return EncodedBitext(source.finish(), target.finish())


def looks_swapped(
    bitext: Bitext,
    source_tokenizer: PreTrainedTokenizerFast,
    target_tokenizer: PreTrainedTokenizerFast,
) -> bool:
    """Whether the two languages seem to be in the wrong order, judging by the tokenizers.

    A tokenizer needs fewer tokens for its own language than another tokenizer does. For each side, the ratio of source
    tokens to target tokens is computed. Comparing the two ratios cancels the lengths of the sentences and the number of
    bytes that a script needs.

    Args:
        bitext: Pairs.
        source_tokenizer: The tokenizer of the language that should come first.
        target_tokenizer: The tokenizer of the other language.

    Raises:
        EvidenceError: The bitext has no complete pair.
    """
    sample = list(islice(((source, target) for source, target in bitext if source), _SAMPLE))
    if not sample:
        raise EvidenceError(f"{bitext.name} has no pair of sentences: give parallel text")
    first, second = zip(*sample, strict=True)
    first_excess = log(_tokens(source_tokenizer, first) / _tokens(target_tokenizer, first))
    second_excess = log(_tokens(source_tokenizer, second) / _tokens(target_tokenizer, second))
    return first_excess > second_excess + _CLEAR_EXCESS


def _tokens(tokenizer: PreTrainedTokenizerFast, texts: Iterable[str]) -> int:
    """Return the number of tokens, at least 1."""
    return max(1, sum(len(ids) for ids in encoder_of(tokenizer).encode(list(texts))))


class _SideBuilder:
    """Collects the tokens of one side."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast, units: Units) -> None:
        self._encode = encoder_of(tokenizer).encode
        self._backend = copy_backend(tokenizer) if units == "words" else None  # gives the offsets of tokens
        self._ids, self._units, self._lines = array("i"), array("q", [0]), array("q", [0])

    def add(self, texts: list[str]) -> None:
        """Append lines."""
        if self._backend is not None:
            encodings = self._backend.encode_batch(texts, add_special_tokens=False)
            for text, encoding in zip(texts, encodings, strict=True):
                self._add_words(text, encoding)
            return
        for ids in self._encode(texts):
            start = len(self._ids)
            self._ids.extend(ids)
            self._units.extend(range(start + 1, len(self._ids) + 1))
            self._lines.append(len(self._units) - 1)

    def finish(self) -> Side:
        """Return the collected side."""
        ids, units, lines = np.array(self._ids, np.int32), np.array(self._units, np.int64), np.array(self._lines)
        return Side(ids, units, lines.astype(np.int64))

    def _add_words(self, text: str, encoding: Encoding) -> None:
        """Assign to each word the tokens that end in it; tokens of only white space belong to no word."""
        # For each character, the number of words that have begun up to and including it [characters].
        begun = list(accumulate(last.isspace() and not at.isspace() for last, at in pairwise(f" {text}")))
        tokens: list[list[int]] = [[] for _ in text.split()]
        for id, (start, end) in zip(encoding.ids, encoding.offsets, strict=True):
            if end > start and not text[end - 1].isspace():
                tokens[begun[end - 1] - 1].append(id)
        for ids in tokens:
            self._ids.extend(ids)
            self._units.append(len(self._ids))
        self._lines.append(len(self._units) - 1)
