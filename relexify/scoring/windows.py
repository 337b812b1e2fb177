"""Held-out text as windows of equal length, in which every token is predicted exactly once.

A text is a sequence of paragraphs. Each ends with the separator that training puts there, which stands for a line break
and counts as one byte. No window is padded: the last one overlaps the one before it, and tokens that it repeats have no
labels. A decoder's windows begin with the token that its tokenizer puts before a text; if there is none, with the token
before the first label.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from transformers import PreTrainedTokenizerFast

from relexify.errors import InputError, VocabularyError
from relexify.pretrained.architecture import IGNORED, Architecture, encoder_frame
from relexify.pretrained.text_start import begin_windows, extra_length, text_start
from relexify.scoring.score import WINDOW
from relexify.text import make_encodable
from relexify.tokens import encoder_of, normaliser_of, separator_of

__all__ = [
    "MASK_STRIDE",
    "HeldOut",
    "held_out_windows",
    "sample_size",
    "warn_about_normalisation",
    "warn_about_unknown",
]

MASK_STRIDE = 7
"""A masked language model has one token in this many masked at a time: about the 15 % that it was trained with."""
UNKNOWN_SHARE = 0.01
"""Warn if more than this share of the tokens is unknown."""
NORMALISED_SHARE = 0.02
"""Warn if the tokenizer's normaliser changes the size of the text by more than this share of its bytes."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class HeldOut:
    """Text to score on.

    Attributes:
        inputs: Token ids that the model sees [windows × length].
        labels: The token to predict at each position, `IGNORED` for none; the next token for a decoder, the masked one
            for an encoder [windows × length].
        tokens: Number of labels.
        bytes: Number of bytes of text that they stand for.
    """

    inputs: np.ndarray
    labels: np.ndarray
    tokens: int
    bytes: int


def held_out_windows(
    tokenizer: PreTrainedTokenizerFast,
    paragraphs: Iterable[str],
    kind: Architecture,
    *,
    length: int = WINDOW,
    mask_stride: int | None = MASK_STRIDE,
) -> HeldOut:
    """Cut text into windows for a decoder or an encoder.

    Args:
        tokenizer: The tokenizer of the model.
        paragraphs: The text.
        kind: The architecture of the model: `decoder` or `encoder`.
        length: Tokens per window, special tokens included.
        mask_stride: Mask every n-th token of an encoder's window at a time; None masks a single token, which takes as
            many windows as there are tokens.

    Raises:
        InputError: There is no text, or no room for it in a window.
        VocabularyError: The tokenizer lacks a token that this architecture needs.
    """
    lines = [make_encodable(line) for line in paragraphs if line and not line.isspace()]
    if not lines:
        raise InputError("there is no held-out text to measure on")
    separator = separator_of(tokenizer)
    ids = [np.array([*row, separator]) for row in encoder_of(tokenizer).encode(lines)]
    stream, size = np.concatenate(ids), sum(len(line.encode()) for line in lines)
    if (stream == separator).all():
        raise InputError("the tokenizer finds no tokens in the held-out text: give text in a script that it knows")
    warn_about_unknown(tokenizer, stream)
    warn_about_normalisation(tokenizer, lines)
    if kind == "decoder":
        start = text_start(tokenizer)
        inputs, labels = begin_windows(start, *_decoder_windows(stream, separator, length - extra_length(start)))
        size += len(lines)  # a decoder predicts the line breaks too
    else:
        inputs, labels = _encoder_windows(tokenizer, stream, separator, length, mask_stride)
    return HeldOut(inputs, labels, int((labels != IGNORED).sum()), size)


def sample_size(requested: int | None, device: str) -> int:
    """Return how many bytes of held-out text to score on: those requested, or 400,000 with CUDA and 8,192 without.

    On one device, transfer and training have the same default, so that the first score of a training is that of the
    transfer. Training uses no GPU but those of CUDA: where there is another, it scores on a CPU. On 4,096 to 32,768
    bytes of Swahili, scores of one model differ by up to 0.08 bits per byte, but the difference between a good and a
    useless dictionary only by 0.015: on 8,192 bytes it is within 0.007 of that on 32,768.
    """
    return requested or (400_000 if device.startswith("cuda") else 8_192)


def warn_about_unknown(tokenizer: PreTrainedTokenizerFast, stream: np.ndarray) -> None:
    """Warn if many tokens are unknown: they are easy to predict and say nothing, so scores look better than they are.

    Args:
        tokenizer: The tokenizer.
        stream: Token ids of the text [n].
    """
    share = float((stream == tokenizer.unk_token_id).mean()) if tokenizer.unk_token_id is not None else 0.0
    if share > UNKNOWN_SHARE:
        logger.warning(
            "%.1f %% of the held-out tokens are unknown to the tokenizer: the scores are too good", 100 * share
        )


def warn_about_normalisation(tokenizer: PreTrainedTokenizerFast, lines: Sequence[str]) -> None:
    """Warn if the tokenizer shortens a text before it reads it, since bits are divided by the bytes of the whole text.

    Args:
        tokenizer: The tokenizer.
        lines: The text.
    """
    if (normalise := normaliser_of(tokenizer)) is None:
        return
    # Without white space, which BERT's normaliser puts around ideographs
    before, after = (
        sum(len("".join(text.split()).encode()) for text in texts) for texts in (lines, map(normalise, lines))
    )
    if abs(before - after) > NORMALISED_SHARE * before:
        logger.warning(
            "the tokenizer normalises the text to %.0f %% of its bytes before it reads it: compare these bits per byte "
            "only with those of tokenizers that do the same",
            100 * after / before,
        )


def _decoder_windows(stream: np.ndarray, separator: int, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs and labels; the first token is predicted from a separator."""
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
    tokenizer: PreTrainedTokenizerFast, stream: np.ndarray, separator: int, length: int, stride: int | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs and labels: copies of each window, which together mask every token but the separators once."""
    if tokenizer.mask_token_id is None:
        raise VocabularyError("the tokenizer has no mask token: a masked language model needs one")
    before, after = encoder_frame(tokenizer)
    body = min(length - len(before) - len(after), len(stream))
    no_labels = np.full(len(before), IGNORED), np.full(len(after), IGNORED)
    inputs, labels = [], []
    for start, repeated in _starts(len(stream), body):
        part = stream[start : start + body]
        counts = (part != separator) & (np.arange(body) >= repeated)
        for first in range(min(stride or body, body)):
            masked = counts & (np.arange(body) % (stride or body) == first)
            if not masked.any():
                continue
            inputs.append(np.concatenate([before, np.where(masked, tokenizer.mask_token_id, part), after]))
            labels.append(np.concatenate([no_labels[0], np.where(masked, part, IGNORED), no_labels[1]]))
    return np.stack(inputs).astype(np.int64), np.stack(labels).astype(np.int64)


def _starts(size: int, length: int) -> list[tuple[int, int]]:
    """Return where the windows of a text start, and how many of their first tokens were in an earlier one."""
    if length < 1:
        raise InputError("a window leaves no room for text beside its special tokens: give longer windows")
    starts = list(range(0, size - length + 1, length))
    if starts[-1] + length < size:
        starts.append(size - length)
    return [(start, max(0, index * length - start)) for index, start in enumerate(starts)]
