"""The beginning of the windows that a decoder reads: the special tokens that its tokenizer puts before a text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from transformers import PreTrainedTokenizerBase

from relexify.pretrained.architecture import IGNORED

__all__ = ["begin_windows", "extra_length", "text_start"]


def text_start(tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """Return the ids of the special tokens that a decoder's tokenizer puts before a text.

    Decoders are trained and used with these tokens: Llama and Gemma with a beginning-of-text token, XGLM with its end
    token, GLM with two tokens, and many others with none.
    """
    with_special: list[int] = tokenizer("a").input_ids
    text: list[int] = tokenizer("a", add_special_tokens=False).input_ids
    starts = (index for index in range(len(with_special)) if with_special[index : index + len(text)] == text)
    return with_special[: next(starts, 0)] if text else []


def extra_length(start: Sequence[int]) -> int:
    """Return how many positions `begin_windows` adds: one per special token except the last, which replaces a token."""
    return max(0, len(start) - 1)


def begin_windows(start: Sequence[int], inputs: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Put the special tokens that begin a text at the beginning of each window.

    Args:
        start: The special tokens of `text_start`. The last one replaces the first input token and predicts the first
            label; the others have no label.
        inputs: Tokens of the text, beginning with the token before the first label [windows × length].
        labels: The token after each input token [windows × length].

    Returns:
        Inputs and labels, each [windows × (length + `extra_length`)].
    """
    if not start:
        return inputs, labels
    before = np.tile(np.array(start, dtype=inputs.dtype), (len(inputs), 1))
    no_labels = np.full_like(before[:, 1:], IGNORED)
    return np.concatenate([before, inputs[:, 1:]], axis=1), np.concatenate([no_labels, labels], axis=1)
