"""The same sentences under the source and the target tokenizer, for reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from relexify.storage.notes import read_as
from relexify.tokens.vocabulary import copy_backend

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    from relexify.text import Corpus

__all__ = ["Pieces", "SegmentedLine", "samples_of", "segment", "segment_samples"]

Pieces = Sequence[tuple[str, int]]
"""The pieces that a tokenizer cuts a text into, each with its number of tokens."""

_SENTENCES = 3
_SHORTEST, _LONGEST = 40, 160
"""Characters of a sample."""
_BYTES = 20_000
"""Bytes of held-out text that samples are chosen from."""


@dataclass(frozen=True)
class SegmentedLine:
    """A line of text under both tokenizers.

    Attributes:
        text: The line.
        source: Its pieces under the source tokenizer.
        target: Its pieces under the target tokenizer.
        is_cut: Whether the line is longer, and was cut.
    """

    text: str
    source: Pieces
    target: Pieces
    is_cut: bool = False


def samples_of(notes: Mapping[str, Any]) -> list[SegmentedLine]:
    """Return the samples of `relexify.json`; none if it has none."""
    return [read_as(SegmentedLine, {"text": "", **sample}) for sample in notes.get("samples") or ()]


def segment_samples(
    text: Corpus, source: PreTrainedTokenizerFast, target: PreTrainedTokenizerFast
) -> list[SegmentedLine]:
    """Return a few typical lines of a text, each with its pieces under both tokenizers.

    Typical lines have about the same ratio of target to source tokens as the whole text.
    """
    lines = [line.strip() for line in text.sample_bytes(_BYTES).split("\n") if line.strip()]
    long_lines = [line for line in lines if len(line) >= _SHORTEST] or lines
    before, after = copy_backend(source), copy_backend(target)
    cut = [(_shorten(line), len(line) > _LONGEST) for line in long_lines]
    samples = [SegmentedLine(line, segment(line, before), segment(line, after), is_cut) for line, is_cut in cut]
    counts = [(_count(sample.source), _count(sample.target)) for sample in samples]
    source_total, target_total = (sum(count[side] for count in counts) for side in (0, 1))
    ratio = target_total / max(1, source_total)
    distances = [abs(target_tokens / max(1, source_tokens) - ratio) for source_tokens, target_tokens in counts]
    typical = sorted(range(len(samples)), key=distances.__getitem__)[:_SENTENCES]
    return [samples[index] for index in typical]


def segment(text: str, tokenizer: Tokenizer) -> list[tuple[str, int]]:
    """Return the pieces of a text.

    A piece has several tokens if they are the bytes of one character, none of which can be shown alone.
    """
    pieces: list[tuple[str, int]] = []
    end = 0
    for first, last in tokenizer.encode(text, add_special_tokens=False).offsets:
        if pieces and first < end:
            piece, tokens = pieces[-1]
            pieces[-1] = (piece + text[end:last], tokens + 1)
        else:
            pieces.append((text[first:last], 1))
        end = max(end, last)
    return pieces


def _count(pieces: Pieces) -> int:
    return sum(tokens for _, tokens in pieces)


def _shorten(line: str) -> str:
    """Cut a long line at a space, if it has one."""
    if len(line) <= _LONGEST:
        return line
    cut = line[:_LONGEST]
    return cut.rpartition(" ")[0] or cut
