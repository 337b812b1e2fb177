"""Bits per byte of a masked language model that predicts whole words, to compare vocabularies.

If single tokens are masked, the rest of their word stays visible, so predictions are easier with a vocabulary that
splits words into more pieces. Here, a whole word (the characters between two spaces) is masked, and its pieces are
predicted from left to right, each given the pieces before it. Words and their context are the same for every tokenizer,
as long as 64 words fit into a window. Two differences remain: the number of masks reveals the number of pieces of a
word, and a tokenizer that removes capitals or accents does not need to predict them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import numpy as np
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from relexify.errors import InputError, VocabularyError
from relexify.pretrained.architecture import IGNORED, architecture_of, check_fit, encoder_frame, usable_length
from relexify.pretrained.runtime.runnable import evaluating
from relexify.progress import track
from relexify.scoring.bits import TASK, batch_nats
from relexify.scoring.score import Score
from relexify.scoring.windows import MASK_STRIDE, warn_about_dropped, warn_about_normalisation, warn_about_unknown
from relexify.text import is_unspaced, make_encodable
from relexify.tokens import backend_of

__all__ = ["bits_per_byte_of_words"]

WORDS = 64
"""Number of words that the model reads at once; fewer if they do not fit into a window."""


def bits_per_byte_of_words(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    paragraphs: Iterable[str] | str,
    *,
    window: int = 512,
    batch: int = 64,
) -> Score:
    """Score a masked language model: bits per byte of text, each word masked once, one word in seven at a time.

    Args:
        model: A masked language model.
        tokenizer: Its tokenizer.
        paragraphs: Held-out text, in a language that is written with spaces; a string has one paragraph per line.
        window: Maximum number of tokens that the model reads at once.
        batch: Number of sequences in a batch.

    Raises:
        InputError: There is no text, it is written without spaces, a word does not fit into a window, or the model is
            not a masked language model.
        VocabularyError: The tokenizer does not match the model, or has no mask token or no fast backend.
    """
    if architecture_of(model) != "encoder":
        raise InputError(f"{type(model).__name__} is not a masked language model: score it with masking=strided")
    if tokenizer.mask_token_id is None:
        raise VocabularyError("the tokenizer has no mask token: a masked language model needs one")
    backend_of(tokenizer)  # raises an error for a slow tokenizer, which cannot return the offsets of tokens
    check_fit(model, tokenizer)
    before, after = encoder_frame(tokenizer)
    body = min(window, usable_length(model) or window) - len(before) - len(after)
    if isinstance(paragraphs, str):
        paragraphs = paragraphs.split("\n")
    lines = [make_encodable(line) for line in paragraphs if line and not line.isspace()]
    if not lines:
        raise InputError("there is no held-out text to measure on")
    letters = [letter for line in lines for letter in line if letter.isalpha()]
    if 2 * sum(map(is_unspaced, letters)) > len(letters):
        raise InputError(
            "whole words are found by spaces, but most letters of the held-out text belong to a script without spaces "
            "between words: score it with masking=strided"
        )
    segments = [segment for line in lines for segment in _segments(tokenizer, line.split(), body)]
    if not segments:
        raise InputError("the tokenizer finds no tokens in the held-out text: give text in a script that it supports")
    warn_about_unknown(tokenizer, np.concatenate([ids for ids, _ in segments]))
    warn_about_dropped(tokenizer, lines)
    warn_about_normalisation(tokenizer, lines)
    total = 0.0
    with evaluating(model), torch.inference_mode(), track("measuring whole words", len(segments)) as advance:
        for ids, words in segments:
            inputs, labels = _masked_copies(ids, words, tokenizer.mask_token_id, before, after)
            for start in range(0, len(inputs), batch):
                total += batch_nats(model, inputs[start : start + batch], labels[start : start + batch])
            advance(1)
    size = sum(len(line.encode()) for line in lines)
    bits = total / math.log(2) / size
    return Score(TASK, "bits per byte of whole words", bits, higher_is_better=False, examples=size, unit="bytes")


def _segments(
    tokenizer: PreTrainedTokenizerFast, words: list[str], body: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield segments of up to `WORDS` words, each as token ids [n] and, for each token, the index of its word [n]."""
    if len(words) > WORDS:
        for start in range(0, len(words), WORDS):
            yield from _segments(tokenizer, words[start : start + WORDS], body)
        return
    encoded = tokenizer(" ".join(words), add_special_tokens=False, return_offsets_mapping=True, verbose=False)
    if len(encoded.input_ids) > body:
        if len(words) == 1:
            raise InputError(
                f"a word of {len(encoded.input_ids)} tokens does not fit into a window of {body}: whole words are for "
                "languages that are written with spaces; give longer windows, or leave such words out of the text"
            )
        for part in (words[: len(words) // 2], words[len(words) // 2 :]):
            yield from _segments(tokenizer, part, body)
    elif encoded.input_ids:
        ends = np.cumsum([len(word) + 1 for word in words]) - 1  # a space belongs to the word after it
        last = np.array([max(start, end - 1) for start, end in encoded.offset_mapping])
        word_of = np.minimum(np.searchsorted(ends, last, side="right"), len(words) - 1)
        # Some tokens (a lone prefix, a byte) have lower offsets than the token before them. The running maximum
        # prevents that they are assigned to an earlier word.
        yield np.array(encoded.input_ids, dtype=np.int64), np.maximum.accumulate(word_of)


def _masked_copies(
    ids: np.ndarray, words: np.ndarray, mask: int, before: list[int], after: list[int]
) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs and labels in which every token is predicted once, [copies × length] each."""
    rank = np.arange(len(ids)) - np.searchsorted(words, words)  # index of a token within its word
    inputs, labels = [], []
    for first in range(MASK_STRIDE):
        masked = words % MASK_STRIDE == first
        for piece in range(int(rank[masked].max(initial=-1)) + 1):
            inputs.append(np.where(masked & (rank >= piece), mask, ids))
            labels.append(np.where(masked & (rank == piece), ids, IGNORED))
    start, end = (np.tile(np.array(part, dtype=np.int64), (len(inputs), 1)) for part in (before, after))
    return (
        np.hstack([start, np.stack(inputs), end]),
        np.hstack([np.full_like(start, IGNORED), np.stack(labels), np.full_like(end, IGNORED)]),
    )
