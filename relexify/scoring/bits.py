"""Bits per byte and perplexity: how well a language model predicts text.

Perplexity is per token, so it depends on the tokenizer. Bits per byte do not, so they allow comparing models with
different vocabularies. A decoder predicts every token from the tokens before it. An encoder predicts every token once,
from its context on both sides, with one token in seven masked at a time; its perplexity is a pseudo-perplexity. An
encoder-decoder reads the first half of a paragraph and predicts the second. Scores can be compared between models of
the same architecture, but not across architectures.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Sequence

import numpy as np
import torch
from torch.nn.functional import cross_entropy
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from relexify.errors import InputError
from relexify.pretrained.architecture import IGNORED, Architecture, architecture_of, check_fit, usable_length
from relexify.pretrained.runtime.runnable import check_finite, evaluating
from relexify.progress import track
from relexify.scoring.score import WINDOW, Score
from relexify.scoring.windows import MASK_STRIDE, held_out_windows
from relexify.text import is_unspaced, make_encodable

__all__ = [
    "TASK",
    "batch_nats",
    "bits_per_byte",
    "bits_per_word",
    "bits_per_word_of",
    "language_model_scores",
    "scores_of",
]

TASK = "language modelling"
_METRICS = {
    "decoder": "bits per byte",
    "encoder": "masked bits per byte",
    "encoder-decoder": "bits per byte of the second half",
}
_MAX_NATS = 700.0  # exp overflows a float64 above about 709

logger = logging.getLogger(__name__)


def bits_per_byte(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    text: str,
    *,
    window: int = WINDOW,
    batch: int = 4,
    tokens: int | None = None,
) -> Score:
    """Score a language model on held-out text.

    Args:
        model: A decoder, a masked language model or an encoder-decoder.
        tokenizer: Its tokenizer.
        text: Held-out text, one paragraph per line.
        window: Number of tokens that the model reads at once.
        batch: Number of windows in a batch.
        tokens: If given, only the first `tokens` tokens of the vocabulary can be predicted; the text must contain no
            others.

    Raises:
        InputError: There is no text, or the model has no language-modelling head.
        VocabularyError: The tokenizer does not match the model.
    """
    return language_model_scores(model, tokenizer, text.split("\n"), window=window, batch=batch, tokens=tokens)[0]


def language_model_scores(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    paragraphs: Iterable[str],
    *,
    window: int = WINDOW,
    batch: int = 4,
    mask_stride: int | None = MASK_STRIDE,
    tokens: int | None = None,
) -> tuple[Score, Score]:
    """Return bits per byte and perplexity of a language model on held-out text.

    Args:
        model: A decoder, a masked language model or an encoder-decoder.
        tokenizer: Its tokenizer.
        paragraphs: Held-out text.
        window: Number of tokens that the model reads at once.
        batch: Number of windows in a batch.
        mask_stride: For an encoder, mask every n-th token of a window at a time; None masks a single token at a time,
            as in the pseudo-perplexity of Salazar et al. (2020).
        tokens: As in `bits_per_byte`.

    Raises:
        InputError: There is no text, the model has no language-modelling head, or its weights have NaN.
        VocabularyError: The tokenizer does not match the model.
    """
    kind = architecture_of(model)
    if kind == "headless":
        raise InputError(f"{type(model).__name__} has no language-modelling head: load it with one")
    check_fit(model, tokenizer)
    length = min(window, usable_length(model) or window)
    with evaluating(model), torch.inference_mode():
        if kind == "encoder-decoder":
            nats, count, size = _second_half_nats(model, tokenizer, paragraphs, length, batch, tokens)
        else:
            held_out = held_out_windows(tokenizer, paragraphs, kind, length=length, mask_stride=mask_stride)
            nats, count, size = 0.0, held_out.tokens, held_out.bytes
            with track("measuring bits per byte", len(held_out.inputs)) as advance:
                for start in range(0, len(held_out.inputs), batch):
                    part = slice(start, start + batch)
                    nats += batch_nats(model, held_out.inputs[part], held_out.labels[part], tokens=tokens)
                    advance(len(held_out.inputs[part]))
    if not math.isfinite(nats):
        check_finite(model)  # raises an error that names the parameter
        logger.warning("the scores are NaN or infinite: all weights are finite, but activations of the model overflow")
    return scores_of(nats, count, size, kind)


def scores_of(nats: float, tokens: int, size: int, kind: Architecture) -> tuple[Score, Score]:
    """Return bits per byte and perplexity.

    Args:
        nats: Summed negative log likelihood of a text.
        tokens: Number of tokens in the sum.
        size: Size of the text in bytes.
        kind: The architecture of the model, which determines the names of the scores.
    """
    bits = nats / math.log(2) / size
    perplexity = math.exp(min(nats / tokens, _MAX_NATS)) if math.isfinite(nats) else math.nan
    name = "pseudo-perplexity" if kind == "encoder" else "perplexity"
    return (
        Score(TASK, _METRICS[kind], bits, higher_is_better=False, examples=size, unit="bytes"),
        Score(TASK, name, perplexity, higher_is_better=False, examples=tokens, unit="tokens"),
    )


def bits_per_word(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    paragraphs: Iterable[str],
    *,
    window: int = WINDOW,
    batch: int = 4,
) -> Score:
    """Score a masked language model as TreLM does (section 6.1): mean bits per token, each token masked once.

    The choice of tokens that are masked together depends only on the text, so models with the same tokenizer predict
    the same tokens. Models with different tokenizers cannot be compared: use bits per byte.

    Args:
        model: A masked language model; if it has several languages, the last one is used.
        tokenizer: Its tokenizer.
        paragraphs: Held-out text.
        window: Number of tokens that the model reads at once.
        batch: Number of windows in a batch.

    Raises:
        InputError: There is no text, or the model is not a masked language model.
        VocabularyError: The tokenizer does not match the model.
    """
    if architecture_of(model) != "encoder":
        raise InputError(f"{type(model).__name__} is not a masked language model: measure bits per byte instead")
    _, perplexity = language_model_scores(model, tokenizer, paragraphs, window=window, batch=batch)
    return bits_per_word_of(perplexity.value, perplexity.examples)


def bits_per_word_of(perplexity: float, tokens: int) -> Score:
    """Return bits per word, given a pseudo-perplexity that was measured on a number of tokens."""
    bits = math.log2(perplexity)
    return Score(TASK, "bits per word", bits, higher_is_better=False, examples=tokens, unit="tokens")


def batch_nats(model: PreTrainedModel, inputs: np.ndarray, labels: np.ndarray, *, tokens: int | None = None) -> float:
    """Return the summed negative log likelihood of the labels of some sequences.

    Args:
        model: A decoder or a masked language model.
        inputs: Token ids [n × length].
        labels: The token to predict at each position, `IGNORED` for none [n × length].
        tokens: As in `bits_per_byte`.
    """
    logits = model(input_ids=torch.from_numpy(inputs).to(model.device)).logits
    return _labelled_nats(logits[..., :tokens], torch.from_numpy(labels).to(model.device))


def _labelled_nats(logits: torch.Tensor, labels: torch.Tensor) -> float:
    # Convert only labelled positions to float32: the logits of a whole window may take most of the memory.
    labelled = labels != IGNORED
    return float(cross_entropy(logits[labelled].float(), labels[labelled], reduction="sum"))


def _second_half_nats(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    paragraphs: Iterable[str],
    length: int,
    batch: int,
    tokens: int | None,
) -> tuple[float, int, int]:
    """Return the summed negative log likelihood of the second halves of paragraphs, and their tokens and bytes.

    Raises:
        InputError: No paragraph has at least two words.
    """
    examples: list[tuple[list[int], list[int]]] = []
    size = 0
    for paragraph in (make_encodable(line) for line in paragraphs):
        middle = _middle(paragraph)
        if middle is None:
            continue
        first_half, second_half = paragraph[:middle], paragraph[middle:]
        label_ids = tokenizer(second_half, add_special_tokens=False, verbose=False).input_ids[:length]
        examples.append((tokenizer(first_half, verbose=False).input_ids[:length], label_ids))
        # Count only the bytes that are predicted: the bytes of the tokens that remain after truncation.
        may_be_truncated = len(label_ids) == length
        size += len((tokenizer.decode(label_ids) if may_be_truncated else second_half).encode())
    if not examples:
        raise InputError("the held-out text has no paragraph with two halves of at least one word: give more text")
    padding = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else 0
    nats, count = 0.0, 0
    with track("measuring bits per byte", len(examples)) as advance:
        for start in range(0, len(examples), batch):
            inputs, label_rows = zip(*examples[start : start + batch], strict=True)
            labels = _padded(label_rows, IGNORED).to(model.device)
            logits = model(
                input_ids=_padded(inputs, padding).to(model.device),
                attention_mask=_padded([[1] * len(row) for row in inputs], 0).to(model.device),
                labels=labels,
            ).logits
            nats += _labelled_nats(logits[..., :tokens], labels)
            count += int((labels != IGNORED).sum())
            advance(len(inputs))
    return nats, count, size


def _middle(paragraph: str) -> int | None:
    """Return the position at which the second half of a paragraph begins.

    Returns:
        The first position from the middle on that has a space, or a letter of a script without spaces; None if there
        is none.
    """
    half = len(paragraph) // 2
    for position in range(max(1, half), len(paragraph)):
        character = paragraph[position]
        if character == " " or (character.isalpha() and is_unspaced(character)):
            return position
    return None


def _padded(rows: Sequence[list[int]], value: int) -> torch.Tensor:
    longest = max(len(row) for row in rows)
    return torch.tensor([row + [value] * (longest - len(row)) for row in rows])
