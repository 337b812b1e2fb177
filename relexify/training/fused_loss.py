"""The loss of a large vocabulary without its logits: head and cross-entropy together, a few thousand tokens at a time.

The logits of 64 × 512 tokens over 32,000 words take four gigabytes in float32, and as much again for their gradient.
Here a chunk's logits live only until the chunk's gradients are known, which is in the forward pass already, since the
loss is what everything ends in. No product is computed twice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn.functional import cross_entropy, linear

from relexify.scoring import IGNORED

__all__ = ["chunk_nats", "head_nats"]

CHUNK = 8_192

ChunkLoss = Callable[[torch.Tensor, torch.Tensor, torch.Tensor | None, torch.Tensor], torch.Tensor]


def chunk_nats(
    hidden: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, labels: torch.Tensor
) -> torch.Tensor:
    """The summed negative log likelihood of some places: hidden [n × d], weight [V × d], bias [V], labels [n]."""
    return cross_entropy(linear(hidden, weight, bias).float(), labels, ignore_index=IGNORED, reduction="sum")


def head_nats(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    labels: torch.Tensor,
    *,
    chunk: int = CHUNK,
    loss: ChunkLoss = chunk_nats,
) -> torch.Tensor:
    """The summed negative log likelihood of `labels` under the head, in nats.

    Args:
        hidden: What goes into the head [… × d].
        weight: Of the head [V × d].
        bias: Of the head [V], if it has one.
        labels: The token of every place, `IGNORED` where none counts [same … as `hidden`].
        chunk: Places at a time.
        loss: What is computed for a chunk; `chunk_nats`, or that compiled.
    """
    flat, targets = hidden.reshape(-1, hidden.shape[-1]), labels.reshape(-1)
    if torch.is_grad_enabled():
        return _HeadNats.apply(flat, weight, bias, targets, chunk, loss)  # type: ignore[no-any-return, no-untyped-call]
    parts = zip(flat.split(chunk), targets.split(chunk), strict=True)
    return torch.stack([loss(part, weight, bias, target) for part, target in parts]).sum()


class _HeadNats(torch.autograd.Function):
    """Gradients are taken chunk by chunk in the forward pass; the backward pass only scales them."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        labels: torch.Tensor,
        chunk: int,
        loss: ChunkLoss,
    ) -> torch.Tensor:
        wanted = ctx.needs_input_grad[:3]
        inputs = [hidden, weight, bias]
        sums = [torch.zeros_like(each) if want else None for each, want in zip(inputs, wanted, strict=True)]
        total = torch.zeros((), device=hidden.device)
        for start in range(0, len(hidden), chunk):
            part = slice(start, start + chunk)
            with torch.enable_grad():
                leaves = [
                    None if each is None else each.detach().requires_grad_(want)
                    for each, want in zip((hidden[part], weight, bias), wanted, strict=True)
                ]
                nats = loss(*leaves, labels[part])  # type: ignore[arg-type]
                needed = [leaf for leaf, want in zip(leaves, wanted, strict=True) if want]
                found = iter(torch.autograd.grad(nats, needed))  # type: ignore[arg-type]
            total += nats.detach()
            for place, (sum_, want) in enumerate(zip(sums, wanted, strict=True)):
                if sum_ is not None and want:
                    (sum_[part] if place == 0 else sum_).add_(next(found))
        ctx.gradients = sums
        return total

    @staticmethod
    def backward(ctx: Any, *outputs: torch.Tensor) -> Any:
        scale = outputs[0]
        return (*(None if each is None else each.mul_(scale) for each in ctx.gradients), None, None, None)
