"""Parallel text as two tokenizers write it."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from math import log
from typing import Any, Literal

import numpy as np
from tokenizers import Tokenizer

from relexify.errors import EvidenceError
from relexify.evidence.bitext.bitext import Bitext
from relexify.progress import track
from relexify.tokens import backend_of, encoder_of

__all__ = ["EncodedBitext", "Side", "Units", "encode_bitext", "looks_swapped"]

Units = Literal["tokens", "words"]
"""What links connect: tokens, or words as white space parts them."""

_AT_ONCE = 1000
_CLEARLY = log(1.1)


@dataclass(frozen=True, eq=False)
class Side:
    """One language of a bitext: lines of units, units of tokens.

    Attributes:
        ids: The tokens in order, int32 [tokens].
        units: Where the tokens of each unit begin, and the end of the last, int64 [units + 1].
        lines: Where the units of each line begin, and the end of the last, int64 [lines + 1].
    """

    ids: np.ndarray
    units: np.ndarray
    lines: np.ndarray

    @property
    def lengths(self) -> np.ndarray:
        """Units of each line, int64 [lines]."""
        return np.diff(self.lines)


@dataclass(frozen=True)
class EncodedBitext:
    """A bitext in the tokens of two vocabularies; both sides have the same number of lines.

    Attributes:
        source: The model's language.
        target: The new one.
    """

    source: Side
    target: Side

    def __len__(self) -> int:
        return len(self.source.lines) - 1


def encode_bitext(
    bitext: Bitext,
    source_tokenizer: Any,
    target_tokenizer: Any,
    *,
    units: Units = "tokens",
    most_pairs: int | None = None,
) -> EncodedBitext:
    """Tokenise both sides, each with its own tokenizer.

    Args:
        bitext: Pairs; a line without one stays, with no units.
        source_tokenizer: The model's tokenizer.
        target_tokenizer: The new one.
        units: What links will connect.
        most_pairs: Take only so many lines, evenly spread over the text.
    """
    lines = sum(1 for _ in bitext)
    chosen = _spread(bitext, lines, most_pairs or lines)
    sides = _SideBuilder(source_tokenizer, units), _SideBuilder(target_tokenizer, units)
    with track("tokenising pairs", min(lines, most_pairs or lines)) as advance:
        while block := list(islice(chosen, _AT_ONCE)):
            for side, texts in zip(sides, zip(*block, strict=True), strict=True):
                side.add(list(texts))
            advance(len(block))
    return EncodedBitext(*(side.finished() for side in sides))


def looks_swapped(bitext: Bitext, source_tokenizer: Any, target_tokenizer: Any, *, pairs: int = 2000) -> bool:
    """Whether the two languages stand in the wrong order, so far as tokenizers can tell.

    A tokenizer writes its own language with fewer tokens than another one does. Which tokens a side has more of under
    the old tokenizer than under the new, compared between the sides, is free of how long the sentences are and of how
    many bytes a script takes.

    Args:
        bitext: Pairs.
        source_tokenizer: The model's tokenizer, of the language that should come first.
        target_tokenizer: The new one.
        pairs: How many complete pairs to look at.

    Raises:
        EvidenceError: There are none.
    """
    sample = list(islice(((source, target) for source, target in bitext if source), pairs))
    if not sample:
        raise EvidenceError(f"{bitext.name} has no pair of sentences: give parallel text")
    first, second = zip(*sample, strict=True)
    excess = [
        log(_tokens(source_tokenizer, texts) / max(1, _tokens(target_tokenizer, texts))) for texts in (first, second)
    ]
    return excess[0] > excess[1] + _CLEARLY


def _tokens(tokenizer: Any, texts: Iterable[str]) -> int:
    return max(1, sum(len(ids) for ids in encoder_of(tokenizer).encode(list(texts))))


def _spread(bitext: Bitext, lines: int, wanted: int) -> Iterator[tuple[str, str]]:
    """So many lines, as evenly spread as whole numbers allow; all of them where there are no more."""
    return (pair for place, pair in enumerate(bitext) if (place + 1) * wanted // lines > place * wanted // lines)


class _SideBuilder:
    """Collects the tokens of one side."""

    def __init__(self, tokenizer: Any, units: Units) -> None:
        self._words = units == "words"
        self._encode = encoder_of(tokenizer).encode
        self._backend = _plain_copy(tokenizer) if self._words else None
        self._ids, self._units, self._lines = array("i"), array("q", [0]), array("q", [0])

    def add(self, texts: list[str]) -> None:
        """Append so many lines."""
        if self._words:
            for text, encoding in zip(texts, self._encodings(texts), strict=True):
                self._add_words(text, encoding)
            return
        for ids in self._encode(texts):
            start = len(self._ids)
            self._ids.extend(ids)
            self._units.extend(range(start + 1, len(self._ids) + 1))
            self._lines.append(len(self._units) - 1)

    def finished(self) -> Side:
        """What was collected."""
        ids, units, lines = np.array(self._ids, np.int32), np.array(self._units, np.int64), np.array(self._lines)
        return Side(ids, units, lines.astype(np.int64))

    def _encodings(self, texts: list[str]) -> Any:
        return () if self._backend is None else self._backend.encode_batch(texts, add_special_tokens=False)

    def _add_words(self, text: str, encoding: Any) -> None:
        """Give each word the tokens that end in it; a token of white space alone belongs to none."""
        word_at = _words_of_characters(text)
        tokens: list[list[int]] = [[] for _ in text.split()]
        for id, (start, end) in zip(encoding.ids, encoding.offsets, strict=True):
            if end > start and (word := word_at[end - 1]) >= 0:
                tokens[word].append(id)
        for ids in tokens:
            self._ids.extend(ids)
            self._units.append(len(self._ids))
        self._lines.append(len(self._units) - 1)


def _words_of_characters(text: str) -> list[int]:
    """The word that each character belongs to, -1 for white space."""
    places, word, inside = [], -1, False
    for character in text:
        if character.isspace():
            inside = False
            places.append(-1)
            continue
        word += not inside
        inside = True
        places.append(word)
    return places


def _plain_copy(tokenizer: Any) -> Tokenizer:
    """The tokenizer with truncation and padding off, which earlier calls may have left on."""
    copy = Tokenizer.from_str(backend_of(tokenizer).to_str())
    copy.no_truncation()
    copy.no_padding()
    return copy
