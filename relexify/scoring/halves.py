"""What an encoder-decoder is worth: it reads the first half of each paragraph and writes the second."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch.nn.functional import cross_entropy

from relexify.errors import InputError
from relexify.pretrained.architecture import IGNORED
from relexify.progress import track
from relexify.tokens import make_encodable

__all__ = ["half_nats"]


def half_nats(model: Any, tokenizer: Any, paragraphs: Iterable[str], length: int, batch: int) -> tuple[float, int, int]:
    """Summed negative log likelihood, tokens and bytes of the second halves.

    Raises:
        InputError: No paragraph has two words.
    """
    examples, size = _halves(tokenizer, paragraphs, length)
    fill = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else 0
    nats, tokens = 0.0, 0
    with track("measuring bits per byte", len(examples)) as advance:
        for start in range(0, len(examples), batch):
            read, written = zip(*examples[start : start + batch], strict=True)
            inputs, labels = _padded(read, fill).to(model.device), _padded(written, IGNORED).to(model.device)
            mask = _padded([[1] * len(row) for row in read], 0).to(model.device)
            logits = model(input_ids=inputs, attention_mask=mask, labels=labels).logits
            chosen = labels != IGNORED
            nats += float(cross_entropy(logits[chosen].float(), labels[chosen], reduction="sum"))
            tokens += int(chosen.sum())
            advance(len(read))
    return nats, tokens, size


def _halves(tokenizer: Any, paragraphs: Iterable[str], length: int) -> tuple[list[tuple[list[int], list[int]]], int]:
    examples, size = [], 0
    for paragraph in (make_encodable(line)[0] for line in paragraphs):
        middle = paragraph.find(" ", len(paragraph) // 2)
        if middle <= 0:
            continue
        written = tokenizer(paragraph[middle:], add_special_tokens=False, verbose=False).input_ids[:length]
        examples.append((tokenizer(paragraph[:middle], verbose=False).input_ids[:length], written))
        cut = len(written) == length
        size += len((tokenizer.decode(written) if cut else paragraph[middle:]).encode())
    if not examples:
        raise InputError("the held-out text has no paragraph of two words to cut in half")
    return examples, size


def _padded(rows: Iterable[list[int]], value: int) -> torch.Tensor:
    rows = list(rows)
    longest = max(len(row) for row in rows)
    return torch.tensor([row + [value] * (longest - len(row)) for row in rows])
