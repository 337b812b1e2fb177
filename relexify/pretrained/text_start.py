"""How the windows of text begin that a decoder reads: with the special tokens that its tokenizer puts before a text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from transformers import PreTrainedTokenizerBase

from relexify.pretrained.architecture import IGNORED

__all__ = ["begin_windows", "extra_length", "text_start"]


def text_start(tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """Return the ids of the special tokens that the tokenizer itself puts before a text, for a decoder.

    Decoders such as Llama and Gemma were trained with their beginning-of-text token as the first token of a text, and
    are used with it; XGLM with its end token, GLM with two tokens, others with none.
    """
    framed: list[int] = tokenizer("a").input_ids
    text: list[int] = tokenizer("a", add_special_tokens=False).input_ids
    starts = (index for index in range(len(framed)) if framed[index : index + len(text)] == text)
    return framed[: next(starts, 0)] if text else []


def extra_length(start: Sequence[int]) -> int:
    """Return how many positions `begin_windows` adds: the last special token takes the place of another token."""
    return max(0, len(start) - 1)


def begin_windows(start: Sequence[int], inputs: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Let windows of text begin as the decoder is used.

    Args:
        start: The special tokens of `text_start`. The last of them predicts the first label, instead of the token
            before it in the text; the others have no label.
        inputs: Tokens of the text, from the one before the first label [windows × length].
        labels: The token after each of them [windows × length].

    Returns:
        Inputs and labels, each [windows × (length + `extra_length`)].
    """
    if not start:
        return inputs, labels
    before = np.tile(np.array(start, dtype=inputs.dtype), (len(inputs), 1))
    no_labels = np.full_like(before[:, 1:], IGNORED)
    return np.concatenate([before, inputs[:, 1:]], axis=1), np.concatenate([no_labels, labels], axis=1)
