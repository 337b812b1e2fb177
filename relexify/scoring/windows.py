"""Split held-out text into windows of equal length, in which every token is predicted exactly once.

A text is a sequence of paragraphs. Each paragraph ends with the same separator as in training; it stands for a line
break and counts as one byte. No window is padded: the last window overlaps the previous one, and repeated tokens have
no labels. A decoder's windows begin with the token that its tokenizer puts before a text or, if there is none, with the
token before the first label.
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
from relexify.tokens import copy_backend, encoder_of, normaliser_of, separator_of

__all__ = [
    "MASK_STRIDE",
    "HeldOut",
    "held_out_windows",
    "warn_about_dropped",
    "warn_about_normalisation",
    "warn_about_unknown",
]

MASK_STRIDE = 7
"""For a masked language model, one token in this many is masked at a time: about 15 %, as in its training."""
UNKNOWN_SHARE = 0.01
"""Share of unknown tokens above which a warning is logged."""
DROPPED_SAMPLE = 1000
"""Number of lines, spread over a text, in which characters without a token are counted."""
NORMALISED_SHARE = 0.02
"""Share of the bytes of a text that a normaliser may remove; above it, a warning is logged."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class HeldOut:
    """Text to score on.

    Attributes:
        inputs: Token ids that the model reads [windows × length].
        labels: The token to predict at each position [windows × length], `IGNORED` for none: the next token for a
            decoder, the masked token for an encoder.
        tokens: Number of labels.
        bytes: Size in bytes of the text that the labels stand for.
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
    """Split text into windows for a decoder or an encoder.

    Args:
        tokenizer: The tokenizer of the model.
        paragraphs: The text.
        kind: The architecture of the model: `decoder` or `encoder`.
        length: Number of tokens per window, including special tokens.
        mask_stride: For an encoder, mask every n-th token of a window at a time; None masks a single token at a time,
            which needs one window per token.

    Raises:
        InputError: There is no text, or a window has room only for special tokens.
        VocabularyError: The tokenizer lacks a token that this architecture needs.
    """
    lines = [make_encodable(line) for line in paragraphs if line and not line.isspace()]
    if not lines:
        raise InputError("there is no held-out text to measure on")
    separator = separator_of(tokenizer)
    ids = [np.array([*row, separator]) for row in encoder_of(tokenizer).encode(lines)]
    stream, size = np.concatenate(ids), sum(len(line.encode()) for line in lines)
    if (stream == separator).all():
        raise InputError("the tokenizer finds no tokens in the held-out text: give text in a script that it supports")
    warn_about_unknown(tokenizer, stream)
    warn_about_dropped(tokenizer, lines)
    warn_about_normalisation(tokenizer, lines)
    if kind == "decoder":
        start = text_start(tokenizer)
        inputs, labels = begin_windows(start, *_decoder_windows(stream, separator, length - extra_length(start)))
        size += len(lines)  # a decoder predicts the line breaks too
    else:
        inputs, labels = _encoder_windows(tokenizer, stream, separator, length, mask_stride)
    return HeldOut(inputs, labels, int((labels != IGNORED).sum()), size)


def warn_about_unknown(tokenizer: PreTrainedTokenizerFast, stream: np.ndarray) -> None:
    """Warn if many tokens are unknown: they are easy to predict but carry no information, so scores are too good.

    Args:
        tokenizer: The tokenizer.
        stream: Token ids of the text [n].
    """
    share = float((stream == tokenizer.unk_token_id).mean()) if tokenizer.unk_token_id is not None else 0.0
    if share > UNKNOWN_SHARE:
        logger.warning(
            "%.1f %% of the held-out tokens are unknown to the tokenizer: the scores are too good", 100 * share
        )


def warn_about_dropped(tokenizer: PreTrainedTokenizerFast, lines: Sequence[str]) -> None:
    """Warn if many characters get no token at all, as in BPE without bytes and without an unknown token.

    Such characters cost no bits, so scores are too good.

    Args:
        tokenizer: The tokenizer.
        lines: The text.
    """
    backend, normalise = copy_backend(tokenizer), normaliser_of(tokenizer) or str
    sample = [normalise(line) for line in lines[:: -(-len(lines) // DROPPED_SAMPLE)]]
    dropped = total = 0
    for line, encoding in zip(sample, backend.encode_batch(sample, add_special_tokens=False), strict=True):
        kept = {position for start, end in encoding.offsets for position in range(start, end)}
        letters = [position for position, character in enumerate(line) if not character.isspace()]
        dropped, total = dropped + sum(position not in kept for position in letters), total + len(letters)
    if dropped > UNKNOWN_SHARE * total:
        logger.warning(
            "%.1f %% of the characters of the held-out text get no token, not even an unknown one: the scores are too "
            "good; give a tokenizer with bytes or an unknown token (unk_token)",
            100 * dropped / total,
        )


def warn_about_normalisation(tokenizer: PreTrainedTokenizerFast, lines: Sequence[str]) -> None:
    """Warn if the tokenizer shortens a text before it reads it: bits are divided by the bytes of the whole text.

    Args:
        tokenizer: The tokenizer.
        lines: The text.
    """
    if (normalise := normaliser_of(tokenizer)) is None:
        return
    # White space is not counted, because BERT's normaliser adds it around ideographs.
    before, after = (
        sum(len("".join(text.split()).encode()) for text in texts) for texts in (lines, map(normalise, lines))
    )
    if before - after > NORMALISED_SHARE * before:
        logger.warning(
            "the tokenizer (%s tokens) normalises the text to %.0f %% of its bytes before it reads it: compare these "
            "bits per byte only with those of tokenizers that do the same",
            f"{len(tokenizer):,}",
            100 * after / before,
        )


def _decoder_windows(stream: np.ndarray, separator: int, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs and labels; the first token is predicted from a separator."""
    length = min(length, len(stream))
    seen = np.concatenate([[separator], stream[:-1]])
    inputs, labels = [], []
    for start, repeated in _starts(len(stream), length):
        inputs.append(seen[start : start + length])
        window_labels = stream[start : start + length].copy()
        window_labels[:repeated] = IGNORED
        labels.append(window_labels)
    return np.stack(inputs), np.stack(labels)


def _encoder_windows(
    tokenizer: PreTrainedTokenizerFast, stream: np.ndarray, separator: int, length: int, stride: int | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs and labels: copies of each window, in which every token except separators is masked once."""
    if tokenizer.mask_token_id is None:
        raise VocabularyError("the tokenizer has no mask token: a masked language model needs one")
    before, after = encoder_frame(tokenizer)
    body = min(length - len(before) - len(after), len(stream))
    no_labels_before, no_labels_after = np.full(len(before), IGNORED), np.full(len(after), IGNORED)
    inputs, labels = [], []
    for start, repeated in _starts(len(stream), body):
        part = stream[start : start + body]
        is_predicted = (part != separator) & (np.arange(body) >= repeated)
        for first in range(min(stride or body, body)):
            masked = is_predicted & (np.arange(body) % (stride or body) == first)
            if not masked.any():
                continue
            inputs.append(np.concatenate([before, np.where(masked, tokenizer.mask_token_id, part), after]))
            labels.append(np.concatenate([no_labels_before, np.where(masked, part, IGNORED), no_labels_after]))
    return np.stack(inputs).astype(np.int64), np.stack(labels).astype(np.int64)


def _starts(size: int, length: int) -> list[tuple[int, int]]:
    """Return the start of each window of a text, and how many of its first tokens were in an earlier window."""
    if length < 1:
        raise InputError("a window has no room for text besides its special tokens: give longer windows")
    starts = list(range(0, size - length + 1, length))
    if starts[-1] + length < size:
        starts.append(size - length)
    return [(start, max(0, index * length - start)) for index, start in enumerate(starts)]
