"""Encode texts with questions as overlapping windows, and decode the answers that a model finds in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from transformers import PreTrainedTokenizerFast

from relexify.errors import InputError
from relexify.evaluation.data.answers import Passage

__all__ = ["Window", "array_names", "encode_passages", "find_answers"]

_SHORTEST = 16
"""Minimum number of tokens of a window."""
_LONGEST_ANSWER = 200
"""Maximum number of characters of a predicted answer. A limit in tokens would be unfair to a vocabulary that needs
several tokens per character, such as a source model's if it lacks the script of the text."""


@dataclass(frozen=True)
class Window:
    """A model input: a question, and a part of its text.

    Attributes:
        passage: The index of the text with its question.
        text: The whole text.
        spans: For every token, its start and end in the text; None for tokens that are not part of the text.
    """

    passage: int
    text: str
    spans: tuple[tuple[int, int] | None, ...]


def encode_passages(
    passages: Sequence[Passage], tokenizer: PreTrainedTokenizerFast, length: int, token_types: int
) -> tuple[list[dict[str, Any]], list[Window]]:
    """Encode questions and texts; a long text is split into windows that overlap with the next one by a quarter.

    Returns:
        The model inputs of each window, and the windows. The inputs include the positions of the first and the last
        token of the answer, or 0 and 0 if the window does not contain the whole answer.

    Raises:
        InputError: The windows are too short.
    """
    if length < _SHORTEST:
        raise InputError(f"`length={length}` is too short for a question and a text: give {_SHORTEST} or more")
    # The tokenizer does not split the windows, because tokenizers 0.23.1 and 0.23.2 drop almost all after the first.
    encoded = tokenizer(
        [_shorten(passage.question, tokenizer, length // 4) for passage in passages],
        [passage.context for passage in passages],
        return_offsets_mapping=True,
        verbose=False,  # no warning about texts that are longer than the model allows
    )
    names = array_names(encoded, token_types)
    rows: list[dict[str, Any]] = []
    windows = []
    for number, passage in enumerate(passages):
        start, end = passage.start, passage.start + len(passage.answers[0])
        sides = encoded.sequence_ids(number)
        for kept in _cut(sides, length):
            spans = tuple(tuple(encoded["offset_mapping"][number][at]) if sides[at] == 1 else None for at in kept)
            windows.append(Window(number, passage.context, spans))
            known = [(position, span) for position, span in enumerate(spans) if span is not None]
            answer = [position for position, span in known if span[0] < end and span[1] > start]
            if not answer or known[0][1][0] > start or known[-1][1][1] < end:  # the window lacks a part of the answer
                answer = [0]
            rows.append(
                {name: [encoded[name][number][at] for at in kept] for name in names}
                | {"start_positions": answer[0], "end_positions": answer[-1]}
            )
    return rows, windows


def find_answers(windows: Sequence[Window], logits: Sequence[np.ndarray]) -> list[str]:
    """Return the answer to every question: the part of its text whose first and last token score highest together.

    Args:
        windows: The windows; at least one for each text.
        logits: For each window, the scores of every token as the first and as the last of the answer [tokens × 2].
    """
    best: dict[int, tuple[float, str]] = {}
    for window, scores in zip(windows, logits, strict=True):
        positions = [position for position, span in enumerate(window.spans) if span is not None]
        found = -np.inf, ""
        if positions:
            starts, ends = np.array([span for span in window.spans if span is not None]).T
            sums = scores[positions, 0][:, None] + scores[positions, 1][None]
            backwards = np.tri(len(positions), k=-1, dtype=bool)
            sums[backwards | (ends[None] - starts[:, None] > _LONGEST_ANSWER)] = -np.inf
            first, last = divmod(int(sums.argmax()), len(positions))
            found = float(sums[first, last]), window.text[starts[first] : ends[last]]
        best[window.passage] = max(best.get(window.passage, found), found, key=lambda each: each[0])
    return [best[passage][1] for passage in sorted(best)]


def array_names(encoded: Mapping[str, Any], token_types: int) -> list[str]:
    """Return the names of the tokenizer's arrays that a model takes, given its number of token types."""
    names = ["input_ids", "attention_mask"]
    if "token_type_ids" in encoded and token_types > 1:  # RoBERTa's tokenizer may return them, but it has only one type
        names.append("token_type_ids")
    return names


def _cut(sides: Sequence[int | None], length: int) -> list[list[int]]:
    """Return the token positions of each window: question, special tokens, and as much of the text as fits.

    Args:
        sides: For every token, 0 in the question, 1 in the text, None for special tokens.
        length: Maximum number of tokens of a window; a quarter of it overlaps with the next window.
    """
    text = [position for position, side in enumerate(sides) if side == 1]
    overlap, room = length // 4, length - len(sides) + len(text)
    start = text[0] if text else len(sides)
    before, after = range(start), range(start + len(text), len(sides))
    firsts = range(0, max(1, len(text) - overlap), max(1, room - overlap))
    return [[*before, *text[first : first + room], *after] for first in firsts]


def _shorten(text: str, tokenizer: PreTrainedTokenizerFast, tokens: int) -> str:
    """Return the beginning of a text, up to a number of tokens."""
    offsets = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
    return text if len(offsets) <= tokens else text[: offsets[tokens - 1][1]]
