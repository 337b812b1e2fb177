"""Texts with questions as model inputs, in windows that overlap, and the answers that a model finds in them."""

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
"""Tokens that a window must have at least."""
_LONGEST_ANSWER = 200
"""Characters of the longest answer that is predicted. A limit in tokens would be harder on a vocabulary that lacks the
script of the text, such as that of a source model, which needs several tokens for a character."""


@dataclass(frozen=True)
class Window:
    """A part of a text after its question, as a model reads them.

    Attributes:
        passage: The number of the text with its question.
        text: The whole text.
        spans: For every token, where it starts and ends in the text; None for tokens that are not part of it.
    """

    passage: int
    text: str
    spans: tuple[tuple[int, int] | None, ...]


def encode_passages(
    passages: Sequence[Passage], tokenizer: PreTrainedTokenizerFast, length: int, token_types: int
) -> tuple[list[dict[str, Any]], list[Window]]:
    """Encode questions and texts; a long text becomes several windows, a quarter of which overlaps with the next one.

    Returns:
        For each window the arrays of the model, with the positions of the first and of the last token of the answer,
        or 0 and 0 if the window does not have all of it; and the windows.

    Raises:
        InputError: The windows are too short.
    """
    if length < _SHORTEST:
        raise InputError(f"`length={length}` is too short for a question and a text: give {_SHORTEST} or more")
    # Not cut by the tokenizer: tokenizers 0.23.1 and 0.23.2 drop almost all windows after the first.
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
            if not answer or known[0][1][0] > start or known[-1][1][1] < end:  # the answer is not all there
                answer = [0]
            rows.append(
                {name: [encoded[name][number][at] for at in kept] for name in names}
                | {"start_positions": answer[0], "end_positions": answer[-1]}
            )
    return rows, windows


def find_answers(windows: Sequence[Window], logits: Sequence[np.ndarray]) -> list[str]:
    """Return the answer to every question: the part of its text whose ends have the highest sum of scores.

    Args:
        windows: At least one for each text.
        logits: Scores of every token of a window to be the first and the last one [tokens × 2].
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
    """Return which arrays of a tokenizer a model takes, by how many token types (first and second text) it knows."""
    names = ["input_ids", "attention_mask"]
    if "token_type_ids" in encoded and token_types > 1:  # RoBERTa's tokenizer may return them, its model has one type
        names.append("token_type_ids")
    return names


def _cut(sides: Sequence[int | None], length: int) -> list[list[int]]:
    """Return the positions of each window: everything but the text, and as much of the text as there is room for.

    Args:
        sides: For every token, 0 in the question, 1 in the text, None for special tokens.
        length: Most tokens of a window, a quarter of which overlaps with the next one.
    """
    text = [position for position, side in enumerate(sides) if side == 1]
    overlap, room = length // 4, length - len(sides) + len(text)
    start = text[0] if text else len(sides)
    before, after = range(start), range(start + len(text), len(sides))
    firsts = range(0, max(1, len(text) - overlap), max(1, room - overlap))
    return [[*before, *text[first : first + room], *after] for first in firsts]


def _shorten(text: str, tokenizer: PreTrainedTokenizerFast, tokens: int) -> str:
    """Return the beginning of a text that has at most this many tokens."""
    offsets = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
    return text if len(offsets) <= tokens else text[: offsets[tokens - 1][1]]
