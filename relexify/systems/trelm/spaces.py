"""How often tokens occur, and which rows stand for a model's space."""

from __future__ import annotations

from typing import Any

import numpy as np

from relexify.tokens import Vocabulary, encoder_of

__all__ = ["anchor_ids", "token_counts"]


def token_counts(tokenizer: Any, text: str) -> np.ndarray:
    """How often each token of a vocabulary occurs in a text, int64 [tokens]."""
    counts = np.zeros(len(tokenizer), np.int64)
    for ids in encoder_of(tokenizer).encode(text.split("\n")):
        np.add.at(counts, np.asarray(ids, np.int64), 1)
    return counts


def anchor_ids(vocabulary: Vocabulary, counts: np.ndarray) -> np.ndarray:
    """The tokens whose rows stand for a model's space, most frequent first, int64 [n].

    The ids of a vocabulary tell little of frequency: BERT's begin with a thousand that no text has.

    Args:
        vocabulary: Of the model.
        counts: Of its tokens in text of its language.
    """
    plain = np.array([not form.is_special for form in vocabulary.forms])
    order = np.argsort(-counts[: len(plain)], kind="stable")
    found: np.ndarray = order[plain[order]]
    return found
