"""Bits per byte and perplexity: how many bits a model needs for a byte of text, and how many tokens it wavers between.

Perplexity counts tokens, so it changes with the tokenizer; bits per byte does not, and is what models with different
vocabularies are compared by. A decoder predicts every token from those before it. An encoder predicts every token
once, from both sides, a seventh of them masked at a time; its perplexity is a pseudo-perplexity. An encoder-decoder
reads the first half of a paragraph and writes the second. The three numbers are comparable within a kind of model, not
across kinds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from relexify.errors import InputError
from relexify.pretrained.architecture import IGNORED, Architecture, architecture_of, check_fit, usable_length
from relexify.progress import track
from relexify.scoring.halves import half_nats
from relexify.scoring.score import Score
from relexify.scoring.windows import MASK_STRIDE, HeldOut, held_out_windows

__all__ = ["batch_nats", "bits_per_byte", "language_model_scores", "scores_of"]

TASK = "language modelling"
_BITS = {
    "decoder": "bits per byte",
    "encoder": "masked bits per byte",
    "encoder-decoder": "bits per byte of the second half",
}


def bits_per_byte(model: Any, tokenizer: Any, text: str, *, window: int = 512, batch: int = 4) -> Score:
    """Measure a language model on held-out text.

    Args:
        model: A decoder, a masked language model or an encoder-decoder.
        tokenizer: Its tokenizer.
        text: Held-out text, a paragraph a line.
        window: Tokens the model sees at once.
        batch: Windows at a time.

    Raises:
        InputError: There is no text, or the model has no language-modelling head.
    """
    return language_model_scores(model, tokenizer, text.split("\n"), window=window, batch=batch)[0]


def language_model_scores(
    model: Any,
    tokenizer: Any,
    paragraphs: Iterable[str],
    *,
    window: int = 512,
    batch: int = 4,
    mask_stride: int | None = MASK_STRIDE,
) -> tuple[Score, Score]:
    """Bits per byte and perplexity of a language model on held-out text; arguments as for `bits_per_byte`.

    Args:
        model: A decoder, a masked language model or an encoder-decoder.
        tokenizer: Its tokenizer.
        paragraphs: Held-out text.
        window: Tokens the model sees at once.
        batch: Windows at a time.
        mask_stride: Of an encoder's tokens, one in so many is masked at a time; None masks one alone, as the
            pseudo-perplexity of Salazar et al. (2020) has it.

    Raises:
        InputError: There is no text, or the model has no language-modelling head.
        VocabularyError: The tokenizer is not the model's.
    """
    kind = architecture_of(model)
    if kind == "headless":
        raise InputError(f"{type(model).__name__} has no language-modelling head: load it with one")
    check_fit(model, tokenizer)
    length = min(window, usable_length(model) or window)
    was_training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            if kind == "encoder-decoder":
                nats, tokens, size = half_nats(model, tokenizer, paragraphs, length, batch)
            else:
                held_out = held_out_windows(tokenizer, paragraphs, kind, length=length, mask_stride=mask_stride)
                nats, tokens, size = _nats(model, held_out, batch), held_out.tokens, held_out.bytes
    finally:
        model.train(was_training)
    return scores_of(nats, tokens, size, kind)


def scores_of(nats: float, tokens: int, size: int, kind: Architecture) -> tuple[Score, Score]:
    """Bits per byte and perplexity, from the summed negative log likelihood of a text."""
    perplexity = math.exp(min(nats / tokens, 700.0)) if math.isfinite(nats) else math.nan
    name = "pseudo-perplexity" if kind == "encoder" else "perplexity"
    return (
        Score(TASK, _BITS[kind], nats / math.log(2) / size, False, size),
        Score(TASK, name, perplexity, False, tokens),
    )


def batch_nats(model: Any, inputs: np.ndarray, labels: np.ndarray) -> float:
    """The summed negative log likelihood of the labelled places of some sequences [n × length]."""
    wanted = torch.from_numpy(labels).to(model.device)
    logits = model(input_ids=torch.from_numpy(inputs).to(model.device)).logits
    chosen = wanted != IGNORED
    return float(cross_entropy(logits[chosen].float(), wanted[chosen], reduction="sum"))


def _nats(model: Any, held_out: HeldOut, batch: int) -> float:
    """The summed negative log likelihood of the labelled tokens."""
    total = 0.0
    with track("measuring bits per byte", len(held_out.inputs)) as advance:
        for start in range(0, len(held_out.inputs), batch):
            inputs = held_out.inputs[start : start + batch]
            total += batch_nats(model, inputs, held_out.labels[start : start + batch])
            advance(len(inputs))
    return total
