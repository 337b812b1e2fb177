"""Bits per byte: how many bits a model needs for a byte of text.

Perplexity counts tokens, so it changes with the tokenizer; bits per byte does not, and is what models with different
vocabularies are compared by. A decoder predicts every token from those before it. An encoder predicts every token
once, from both sides, a seventh of them masked at a time. An encoder-decoder reads the first half of a paragraph and
writes the second. The three numbers are comparable within a kind of model, not across kinds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Literal, TypeVar

import torch
from torch.nn.functional import cross_entropy

from relexify.errors import InputError, VocabularyError
from relexify.evaluation.score import Score
from relexify.progress import Progress, silent

__all__ = ["bits_per_byte", "model_kind"]

Kind = Literal["decoder", "encoder", "encoder-decoder", "headless"]
MASK_STRIDE = 7
IGNORED = -100


def bits_per_byte(
    model: Any, tokenizer: Any, text: str, *, window: int = 512, batch: int = 4, progress: Progress = silent
) -> Score:
    """Measure a language model on held-out text.

    Args:
        model: A decoder, a masked language model or an encoder-decoder.
        tokenizer: Its tokenizer.
        text: Held-out text.
        window: Tokens the model sees at once.
        batch: Windows at a time.
        progress: Told about windows.

    Raises:
        InputError: There is no text, or the model has no language-modelling head.
    """
    if not text.strip():
        raise InputError("there is no held-out text to measure on")
    kind = model_kind(model)
    if kind == "headless":
        raise InputError(f"{type(model).__name__} has no language-modelling head: load it with one")
    longest = getattr(model.config, "max_position_embeddings", None) or window
    window = min(window, longest - 2)
    examples, size = _EXAMPLES[kind](tokenizer, text, window)
    was_training = model.training
    model.eval()
    total = 0.0
    try:
        with progress("measuring bits per byte", len(examples)) as advance, torch.inference_mode():
            for group in _batched(examples, batch):
                total += _nats(model, tokenizer, group, kind)
                advance(len(group))
    finally:
        model.train(was_training)
    return Score("language modelling", _METRICS[kind], total / math.log(2) / size, False, size)


def model_kind(model: Any) -> Kind:
    """What a model predicts with."""
    name = type(model).__name__
    if model.get_output_embeddings() is None or name.endswith("ForPreTraining"):  # several heads, no plain logits
        return "headless"
    if getattr(model.config, "is_encoder_decoder", False):
        return "encoder-decoder"
    return "encoder" if name.endswith("ForMaskedLM") else "decoder"


def _nats(model: Any, tokenizer: Any, group: tuple[dict[str, list[int]], ...], kind: Kind) -> float:
    """The summed negative log likelihood of the labelled tokens of some examples."""
    fill = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else 0
    inputs = _padded([example["inputs"] for example in group], fill).to(model.device)
    labels = _padded([example["labels"] for example in group], IGNORED).to(model.device)
    mask = _padded([[1] * len(example["inputs"]) for example in group], 0).to(model.device)
    if kind == "encoder-decoder":
        logits = model(input_ids=inputs, attention_mask=mask, labels=labels).logits
    else:
        logits = model(input_ids=inputs, attention_mask=mask).logits
    if kind == "decoder":
        logits, labels = logits[:, :-1], labels[:, 1:]
    chosen = labels != IGNORED
    return float(cross_entropy(logits[chosen].float(), labels[chosen], reduction="sum"))


def _padded(rows: list[list[int]], value: int) -> torch.Tensor:
    longest = max(len(row) for row in rows)
    return torch.tensor([row + [value] * (longest - len(row)) for row in rows])


Examples = tuple[list[dict[str, list[int]]], int]


def _decoder_examples(tokenizer: Any, text: str, window: int) -> Examples:
    """Windows that start with a token the model knows as a beginning, so that every token of the text counts."""
    ids = _ids(tokenizer, text)
    start = next((id for id in (tokenizer.bos_token_id, tokenizer.eos_token_id) if id is not None), None)
    if start is None:
        raise VocabularyError("the tokenizer has neither a bos nor an eos token: a decoder needs one to begin with")
    rows = [[start, *part] for part in _batched(ids, window - 1)]
    return [{"inputs": row, "labels": [IGNORED, *row[1:]]} for row in rows], len(text.encode())


def _encoder_examples(tokenizer: Any, text: str, window: int) -> Examples:
    """Every window seven times, each time with other tokens masked."""
    if tokenizer.mask_token_id is None:
        raise VocabularyError("the tokenizer has no mask token: a masked language model needs one")
    examples = [
        {
            "inputs": _framed(tokenizer, masked),
            "labels": _framed(tokenizer, labels, IGNORED),
        }
        for part in _batched(_ids(tokenizer, text), window - 2)
        for masked, labels in _maskings(part, tokenizer.mask_token_id)
    ]
    return examples, len(text.encode())


def _maskings(part: tuple[int, ...], mask: int) -> Iterator[tuple[list[int], list[int]]]:
    for first in range(min(MASK_STRIDE, len(part))):
        hidden = [place % MASK_STRIDE == first for place in range(len(part))]
        yield (
            [mask if hide else id for id, hide in zip(part, hidden, strict=True)],
            [id if hide else IGNORED for id, hide in zip(part, hidden, strict=True)],
        )


def _framed(tokenizer: Any, ids: list[int], edge: int | None = None) -> list[int]:
    """Put the special tokens around a window that the model saw in training, or `edge` in their place."""
    first = tokenizer.cls_token_id if tokenizer.cls_token_id is not None else tokenizer.bos_token_id
    last = tokenizer.sep_token_id if tokenizer.sep_token_id is not None else tokenizer.eos_token_id
    before = [] if first is None else [first if edge is None else edge]
    after = [] if last is None else [last if edge is None else edge]
    return [*before, *ids, *after]


def _encoder_decoder_examples(tokenizer: Any, text: str, window: int) -> Examples:
    """The first half of each paragraph to read, the second to write."""
    examples, size = [], 0
    for paragraph in text.splitlines():
        middle = paragraph.find(" ", len(paragraph) // 2)
        if middle <= 0:
            continue
        written = _ids(tokenizer, paragraph[middle:])[:window]
        examples.append({"inputs": tokenizer(paragraph[:middle]).input_ids[:window], "labels": written})
        size += len(tokenizer.decode(written).encode()) if len(written) == window else len(paragraph[middle:].encode())
    if not examples:
        raise InputError("the held-out text has no paragraph of two words to cut in half")
    return examples, size


Item = TypeVar("Item")


def _batched(items: Iterable[Item], size: int) -> Iterator[tuple[Item, ...]]:
    """Cut into tuples of `size`, the last one shorter."""
    iterator = iter(items)
    while part := tuple(islice(iterator, size)):
        yield part


def _ids(tokenizer: Any, text: str) -> list[int]:
    ids: list[int] = tokenizer(text, add_special_tokens=False, verbose=False).input_ids
    return ids


_EXAMPLES: dict[str, Callable[[Any, str, int], Examples]] = {
    "decoder": _decoder_examples,
    "encoder": _encoder_examples,
    "encoder-decoder": _encoder_decoder_examples,
}
_METRICS = {
    "decoder": "bits per byte",
    "encoder": "masked bits per byte",
    "encoder-decoder": "bits per byte of the second half",
}
