"""Bits per word of a masked language model, as TreLM counts them (section 6.1)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from relexify.errors import InputError
from relexify.pretrained.architecture import architecture_of
from relexify.scoring.bits import TASK, language_model_scores
from relexify.scoring.score import Score

__all__ = ["bits_per_word", "bits_per_word_of"]


def bits_per_word(model: Any, tokenizer: Any, paragraphs: Iterable[str], *, window: int = 512, batch: int = 4) -> Score:
    """Bits that a masked token takes, on the average over all tokens of a text, each masked exactly once.

    Which tokens are masked together depends on the text alone, so that models with the same tokenizer are asked the
    same. Models with other tokenizers cannot be compared: use bits per byte.

    Args:
        model: A masked language model; one with several languages is taken to read its last one.
        tokenizer: Its tokenizer.
        paragraphs: Held-out text.
        window: Tokens the model sees at once.
        batch: Windows at a time.

    Raises:
        InputError: There is no text, or the model masks nothing.
    """
    if architecture_of(model) != "encoder":
        raise InputError(f"{type(model).__name__} is no masked language model: measure bits per byte instead")
    scores = language_model_scores(model, tokenizer, paragraphs, window=window, batch=batch)
    return bits_per_word_of(scores[1].value, scores[1].examples)


def bits_per_word_of(perplexity: float, tokens: int) -> Score:
    """The same from a pseudo-perplexity over so many tokens."""
    return Score(TASK, "bits per word", math.log2(perplexity), False, tokens)
