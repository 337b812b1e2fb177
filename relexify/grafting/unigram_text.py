"""The text from which a unigram prior is estimated: sampled paragraphs, and windows of them for predictions."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from torch.nn.functional import pad
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from relexify.errors import InputError, VocabularyError
from relexify.pretrained.architecture import IGNORED, Architecture, architecture_of, encoder_frame, usable_length
from relexify.pretrained.text_start import begin_windows, extra_length, text_start
from relexify.text import make_encodable
from relexify.tokens import encoder_of, separator_of

__all__ = ["READ", "WindowBatch", "sample_paragraphs", "sample_tokens", "window_batches"]

_LINES, _CHARACTERS = 20_000, 500
"""Number of paragraphs in which tokens are counted, and the length of each, at most: about a million tokens."""
_WINDOW = 256  # tokens
READ = {"decoder": 2_048, "encoder": 4_096, "encoder-decoder": 4_096}
"""Number of tokens read in one measurement of predictions; decoders predict all of them, other models only a part."""
_MASK_STRIDE = 7
"""For an encoder, one token in this many is masked: about 15 %, as in the training of encoders."""


@dataclass(frozen=True)
class WindowBatch:
    """Windows that a model reads in one forward pass.

    Attributes:
        inputs: The arguments of the model's `forward`, [windows × length] each.
        predicts: Whether a token is predicted at each position of the output, bool [windows × length].
        labels: The tokens to predict [n], window by window.
    """

    inputs: dict[str, torch.Tensor]
    predicts: torch.Tensor
    labels: torch.Tensor


def sample_paragraphs(corpus: Iterable[str], *, seed: int = 0) -> list[str]:
    """Return the paragraphs in which `add_unigram_prior` counts tokens.

    Sampling the sample again returns it unchanged, so for several models with the same text, one sample is enough.
    """
    draw = random.Random(seed)
    sample: list[tuple[int, str]] = []
    for number, line in enumerate(corpus):  # reservoir sampling: one pass over a text of unknown size
        slot = number if number < _LINES else draw.randrange(number + 1)
        if slot < _LINES:
            sample[slot : slot + 1] = [(number, line[:_CHARACTERS])]
    return [line for _, line in sorted(sample)]


def sample_tokens(
    tokenizer: PreTrainedTokenizerFast, corpus: Iterable[str], *, seed: int, language: str = "target"
) -> np.ndarray:
    """Return the tokens of a random sample of paragraphs, in the order of the text, with separators between them."""
    lines = [make_encodable(line) for line in sample_paragraphs(corpus, seed=seed)]
    separator = separator_of(tokenizer)
    ids = [
        # no separator after a truncated line
        np.array([*row, separator] if len(line) < _CHARACTERS else row, dtype=np.int64)
        for line, row in zip(lines, encoder_of(tokenizer).encode(lines), strict=True)
    ]
    if not ids:
        raise InputError(f"the text to count tokens in is empty: give text in the {language} language")
    return np.concatenate(ids)


def window_batches(model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, stream: np.ndarray) -> list[WindowBatch]:
    """Return batches of windows that are spread over a text; `stream` contains the tokens of the text [n]."""
    kind = architecture_of(model)
    length = min(_WINDOW, usable_length(model) or _WINDOW, len(stream))
    starts = np.unique(np.linspace(0, len(stream) - length, READ[kind] // length).astype(np.int64))
    windows = stream[starts[:, None] + np.arange(length)]  # [windows × length]
    # Batch only short windows: the logits of a single long window may already take most of the memory.
    size = _WINDOW // length
    batches = [_batch(tokenizer, windows[first : first + size], kind) for first in range(0, len(windows), size)]
    if not any(len(batch.labels) for batch in batches):
        raise InputError(f"a text of {len(stream)} tokens is too short to measure predictions: give more text")
    return batches


def _batch(tokenizer: PreTrainedTokenizerFast, windows: np.ndarray, kind: Architecture) -> WindowBatch:
    """Return windows [windows × length] in the form that a model of this architecture reads."""
    if kind == "decoder":
        start = text_start(tokenizer)
        first = extra_length(start)
        read, written = map(torch.from_numpy, begin_windows(start, windows[:, first:-1], windows[:, first + 1 :]))
        predicts = written != IGNORED
        return WindowBatch({"input_ids": read}, predicts, written[predicts])
    tokens = torch.from_numpy(windows)
    if kind == "encoder-decoder":
        read, written = (half.contiguous() for half in tokens.tensor_split(2, dim=1))
        inputs = {"input_ids": read, "labels": written}
        return WindowBatch(inputs, torch.ones_like(written, dtype=torch.bool), written.flatten())
    if tokenizer.mask_token_id is None:
        raise VocabularyError("the tokenizer has no mask token: a masked language model needs one")
    before, after = (
        torch.tensor(ids, dtype=torch.int64).expand(len(tokens), len(ids)) for ids in encoder_frame(tokenizer)
    )
    tokens = tokens[:, : tokens.shape[1] - before.shape[1] - after.shape[1]]
    masked = (torch.arange(tokens.shape[1]) % _MASK_STRIDE == 0) & (tokens != separator_of(tokenizer))
    ids = torch.cat([before, tokens.masked_fill(masked, tokenizer.mask_token_id), after], dim=1)
    predicts = pad(masked, (before.shape[1], after.shape[1]))
    return WindowBatch({"input_ids": ids}, predicts, tokens[masked])
