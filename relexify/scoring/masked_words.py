"""Bits per byte of a masked language model that is asked for whole words, so that vocabularies can be compared.

Where single tokens are masked, the rest of their word stays visible, and a vocabulary that cuts words into more pieces
has the easier questions. Here a word, which is what stands between spaces, is hidden as a whole and told piece by
piece from its beginning, every piece after those before it. Words and what surrounds them are the same for every
tokenizer, as long as 64 words fit into a window. What still differs: the number of masks tells how many pieces a word
has, and a tokenizer without capitals or accents does not ask for them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import torch

from relexify.errors import InputError, VocabularyError
from relexify.pretrained.architecture import IGNORED, architecture_of, check_fit, encoder_frame, usable_length
from relexify.progress import track
from relexify.scoring.bits import TASK, batch_nats
from relexify.scoring.score import Score
from relexify.scoring.windows import MASK_STRIDE, warn_of_unknown
from relexify.tokens import backend_of, make_encodable

__all__ = ["bits_per_byte_of_words"]

WORDS = 64
"""Words that the model sees at once; fewer where they do not fit."""


def bits_per_byte_of_words(
    model: Any, tokenizer: Any, paragraphs: Iterable[str] | str, *, window: int = 512, batch: int = 64
) -> Score:
    """Bits that a byte of text takes, every word hidden once, a seventh of the words at a time.

    Args:
        model: A masked language model.
        tokenizer: Its tokenizer.
        paragraphs: Held-out text, in a language that is written with spaces; one string has a paragraph a line.
        window: Tokens the model can see at once.
        batch: Sequences at a time.

    Raises:
        InputError: There is no text, a word does not fit into a window, or the model masks nothing.
        VocabularyError: The tokenizer is not the model's, has no mask token, or no fast backend.
    """
    if architecture_of(model) != "encoder":
        raise InputError(f"{type(model).__name__} is no masked language model: measure it without --whole-words")
    if tokenizer.mask_token_id is None:
        raise VocabularyError("the tokenizer has no mask token: a masked language model needs one")
    backend_of(tokenizer)  # which alone knows where tokens stand in their text
    check_fit(model, tokenizer)
    before, after = encoder_frame(tokenizer)
    body = min(window, usable_length(model) or window) - len(before) - len(after)
    given = paragraphs.split("\n") if isinstance(paragraphs, str) else paragraphs
    lines = [make_encodable(line)[0] for line in given if line and not line.isspace()]
    if not lines:
        raise InputError("there is no held-out text to measure on")
    stretches = [found for line in lines for found in _stretches(tokenizer, line.split(), body)]
    if not stretches:
        raise InputError("the tokenizer finds no tokens in the held-out text: give text in a script that it knows")
    warn_of_unknown(tokenizer, np.concatenate([ids for ids, _ in stretches]))
    total, was_training = 0.0, model.training
    model.eval()
    try:
        with torch.inference_mode(), track("measuring whole words", len(stretches)) as advance:
            for ids, words in stretches:
                inputs, labels = _questions(ids, words, tokenizer.mask_token_id, (before, after))
                for start in range(0, len(inputs), batch):
                    total += batch_nats(model, inputs[start : start + batch], labels[start : start + batch])
                advance(1)
    finally:
        model.train(was_training)
    size = sum(len(line.encode()) for line in lines)
    return Score(TASK, "bits per byte of whole words", total / math.log(2) / size, False, size)


def _stretches(tokenizer: Any, words: list[str], body: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The tokens of so many words at a time, and the number of the word that each belongs to [n] each."""
    if len(words) > WORDS:
        for start in range(0, len(words), WORDS):
            yield from _stretches(tokenizer, words[start : start + WORDS], body)
        return
    found = tokenizer(" ".join(words), add_special_tokens=False, return_offsets_mapping=True, verbose=False)
    if len(found.input_ids) > body:
        if len(words) == 1:
            raise InputError(
                f"a word of {len(found.input_ids)} tokens does not fit into a window of {body}: whole words are for "
                "languages that are written with spaces; give longer windows, or leave such words out of the text"
            )
        for part in (words[: len(words) // 2], words[len(words) // 2 :]):
            yield from _stretches(tokenizer, part, body)
    elif found.input_ids:
        ends = np.cumsum([len(word) + 1 for word in words]) - 1  # a space is part of the word after it
        last = np.array([max(start, end - 1) for start, end in found.offset_mapping])
        places = np.minimum(np.searchsorted(ends, last, side="right"), len(words) - 1)
        yield np.array(found.input_ids, dtype=np.int64), np.maximum.accumulate(places)


def _questions(
    ids: np.ndarray, words: np.ndarray, mask: int, frame: tuple[list[int], list[int]]
) -> tuple[np.ndarray, np.ndarray]:
    """What the model sees and what it is to say, every token once [questions × length] each."""
    rank = np.arange(len(ids)) - np.searchsorted(words, words)  # of a token in its word
    inputs, labels = [], []
    for first in range(MASK_STRIDE):
        hidden = words % MASK_STRIDE == first
        for piece in range(int(rank[hidden].max(initial=-1)) + 1):
            inputs.append(np.where(hidden & (rank >= piece), mask, ids))
            labels.append(np.where(hidden & (rank == piece), ids, IGNORED))
    edges = [np.tile(np.array(part, dtype=np.int64), (len(inputs), 1)) for part in frame]
    nothing = [np.full_like(part, IGNORED) for part in edges]
    seen, wanted = np.stack(inputs), np.stack(labels)
    return np.hstack([edges[0], seen, edges[1]]), np.hstack([nothing[0], wanted, nothing[1]])
