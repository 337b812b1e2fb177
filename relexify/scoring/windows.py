"""Held-out text as windows of equal length, in which every token is asked for exactly once.

A text is paragraphs, and every paragraph ends with the separator that training puts there, which stands for a line
break and counts as one byte. No window is padded: the last one reaches back, and what it shows twice counts once.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from relexify.errors import InputError, VocabularyError
from relexify.pretrained.architecture import IGNORED, Architecture, encoder_frame
from relexify.tokens import encoder_of, make_encodable, separator_of

__all__ = ["MASK_STRIDE", "HeldOut", "held_out_windows", "warn_of_unknown"]

MASK_STRIDE = 7
"""Of a masked language model's tokens, one in so many is masked at a time."""
UNKNOWN_SHARE = 0.01

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class HeldOut:
    """Text to measure on.

    Attributes:
        inputs: What the model sees [windows × length].
        labels: What it is to say at each place, `IGNORED` where nothing counts; for a decoder the next token, for an
            encoder the masked one [windows × length].
        tokens: How many labels count.
        bytes: How many bytes of text they stand for.
    """

    inputs: np.ndarray
    labels: np.ndarray
    tokens: int
    bytes: int


def held_out_windows(
    tokenizer: Any,
    paragraphs: Iterable[str],
    kind: Architecture,
    *,
    length: int = 512,
    mask_stride: int | None = MASK_STRIDE,
) -> HeldOut:
    """Cut text into windows for a decoder or an encoder.

    Args:
        tokenizer: The model's.
        paragraphs: The text.
        kind: Of the model.
        length: Tokens a window, special ones included.
        mask_stride: Of an encoder's tokens, one in so many is masked at a time; None masks one alone, which takes as
            many windows as there are tokens.

    Raises:
        InputError: There is no text, or no room for it in a window.
        VocabularyError: The tokenizer lacks a token that this kind of model needs.
    """
    lines = [make_encodable(line)[0] for line in paragraphs if line and not line.isspace()]
    if not lines:
        raise InputError("there is no held-out text to measure on")
    separator = separator_of(tokenizer)
    ids = [np.array([*row, separator]) for row in encoder_of(tokenizer).encode(lines)]
    stream, size = np.concatenate(ids), sum(len(line.encode()) for line in lines)
    if (stream == separator).all():
        raise InputError("the tokenizer finds no tokens in the held-out text: give text in a script that it knows")
    warn_of_unknown(tokenizer, stream)
    if kind == "decoder":
        inputs, labels = _decoder_windows(stream, separator, length)
        size += len(lines)
    else:
        inputs, labels = _encoder_windows(tokenizer, stream, separator, length, mask_stride)
    return HeldOut(inputs, labels, int((labels != IGNORED).sum()), size)


def _starts(size: int, length: int) -> list[tuple[int, int]]:
    """Where windows start, and how many of their places were in an earlier one."""
    if length < 1:
        raise InputError("a window leaves no room for text beside its special tokens: give longer windows")
    starts = list(range(0, size - length + 1, length))
    if starts[-1] + length < size:
        starts.append(size - length)
    return [(start, max(0, place * length - start)) for place, start in enumerate(starts)]


def _decoder_windows(stream: np.ndarray, separator: int, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Every token after those before it; the first one after a separator."""
    length = min(length, len(stream))
    seen = np.concatenate([[separator], stream[:-1]])
    inputs, labels = [], []
    for start, repeated in _starts(len(stream), length):
        inputs.append(seen[start : start + length])
        wanted = stream[start : start + length].copy()
        wanted[:repeated] = IGNORED
        labels.append(wanted)
    return np.stack(inputs), np.stack(labels)


def _encoder_windows(
    tokenizer: Any, stream: np.ndarray, separator: int, length: int, stride: int | None
) -> tuple[np.ndarray, np.ndarray]:
    """Every token but the separators once masked, in several copies of each window."""
    if tokenizer.mask_token_id is None:
        raise VocabularyError("the tokenizer has no mask token: a masked language model needs one")
    before, after = encoder_frame(tokenizer)
    body = min(length - len(before) - len(after), len(stream))
    inputs, labels = [], []
    for start, repeated in _starts(len(stream), body):
        part = stream[start : start + body]
        counts = (part != separator) & (np.arange(body) >= repeated)
        for first in range(min(stride or body, body)):
            hidden = counts & (np.arange(body) % (stride or body) == first)
            if not hidden.any():
                continue
            inputs.append(np.concatenate([before, np.where(hidden, tokenizer.mask_token_id, part), after]))
            edges = np.full(len(before), IGNORED), np.full(len(after), IGNORED)
            labels.append(np.concatenate([edges[0], np.where(hidden, part, IGNORED), edges[1]]))
    return np.stack(inputs).astype(np.int64), np.stack(labels).astype(np.int64)


def warn_of_unknown(tokenizer: Any, stream: np.ndarray) -> None:
    """An unknown token is cheap to predict and says nothing, so it makes a model look better than it is."""
    share = float((stream == tokenizer.unk_token_id).mean()) if tokenizer.unk_token_id is not None else 0.0
    if share > UNKNOWN_SHARE:
        logger.warning("%.1f %% of the held-out tokens are unknown to the tokenizer: the scores flatter", 100 * share)
