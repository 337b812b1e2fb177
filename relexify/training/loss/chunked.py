"""The loss of a large vocabulary without all logits: output head and cross entropy together, in chunks of positions.

The logits of 64 × 512 tokens over 32,000 words take four gigabytes in float32, and as much again for their gradient.
Here the logits of a chunk live only until the gradients of the chunk are known. That is during the forward pass, since
the loss is the end of all computation. No product is computed twice.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, sqrt
from typing import Any

import torch
from torch.nn.functional import cross_entropy, linear

from relexify.pretrained.architecture import IGNORED

__all__ = ["CHUNK", "ChunkLoss", "chunked_loss", "dense_chunk_loss", "labelled_positions"]

CHUNK = 4_096
"""Positions of a chunk, at most."""
_MULTIPLE = 64
"""Fixed numbers of positions are multiples of this, which suits matrix products on a GPU."""

ChunkLoss = Callable[[torch.Tensor, torch.Tensor, torch.Tensor | None, torch.Tensor], torch.Tensor]
"""Returns the summed loss of a chunk from its hidden states [n × d], weight and bias of the head, and labels [n]."""


def dense_chunk_loss(
    hidden: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, labels: torch.Tensor
) -> torch.Tensor:
    """Return the summed negative log likelihood: hidden [n × d], weight [V × d], bias [V], labels [n]."""
    logits = linear(hidden, weight, bias)
    if logits.dtype != torch.float64:
        logits = logits.float()
    return cross_entropy(logits, labels, ignore_index=IGNORED, reduction="sum")


def labelled_positions(
    hidden: torch.Tensor, labels: torch.Tensor, label_share: float, *, fixed: bool
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Select the positions that have a label; at all others the head of a masked language model has nothing to do.

    Args:
        hidden: Input of the head [… × d].
        labels: Tokens to predict, `IGNORED` where there is none [same … as `hidden`].
        label_share: Expected share of positions with a label.
        fixed: Return a number of positions that follows from the shape alone, as compiled code and CUDA graphs need
            it: ten standard deviations more than expected, the last of them without a label.

    Returns:
        The selected positions [n × d], their labels [n], and a number to add to the loss: 0, or NaN if there were more
        labels than positions, so that no label is ever lost silently.
    """
    flat, targets = hidden.reshape(-1, hidden.shape[-1]), labels.reshape(-1)
    has_label = targets != IGNORED
    if not fixed:
        # One position at least, without a label, so that the loss has a gradient (of zero).
        positions = has_label.nonzero().squeeze(1) if has_label.any() else targets.new_zeros(1)
        return flat.index_select(0, positions), targets[positions], torch.zeros((), device=flat.device)
    expected = len(targets) * label_share
    # The number of labels is binomial; ten standard deviations above its mean are never reached by chance.
    likely = expected + 10 * sqrt(expected * (1 - label_share))
    count = min(max(ceil(likely / _MULTIPLE), 1) * _MULTIPLE, len(targets))
    rank = has_label.cumsum(0)
    # Whatever has no label, or comes after `count` labels, is written to a last slot that is cut off.
    slots = torch.where(has_label, rank - 1, count).clamp(max=count)
    every_position = torch.arange(len(targets), device=targets.device)
    positions = targets.new_zeros(count + 1).scatter(0, slots, every_position)[:count]
    selected = targets.new_full((count + 1,), IGNORED).scatter(0, slots, targets)[:count]
    missed = torch.zeros((), device=flat.device).masked_fill(rank[-1] > count, float("nan"))
    return flat.index_select(0, positions), selected, missed


def chunked_loss(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    labels: torch.Tensor,
    *,
    chunk: int = CHUNK,
    loss: ChunkLoss = dense_chunk_loss,
) -> torch.Tensor:
    """Return the summed negative log likelihood of labels under an output head, in nats.

    Args:
        hidden: Input of the head [… × d].
        weight: Weight of the head [V × d], or whatever `loss` takes.
        bias: Bias of the head [V], if it has one.
        labels: Tokens to predict, `IGNORED` where there is none [same … as `hidden`].
        chunk: Positions at a time.
        loss: Computes the loss of a chunk.
    """
    flat, targets = hidden.reshape(-1, hidden.shape[-1]), labels.reshape(-1)
    if torch.is_grad_enabled() and any(each is not None and each.requires_grad for each in (flat, weight, bias)):
        return _ChunkedLoss.apply(flat, weight, bias, targets, chunk, loss)  # type: ignore[no-any-return, no-untyped-call]
    parts = [slice(start, start + chunk) for start in range(0, len(flat), chunk)]
    return torch.stack([loss(flat[part], weight, bias, targets[part]) for part in parts]).sum()


class _ChunkedLoss(torch.autograd.Function):
    """Computes gradients chunk by chunk in the forward pass; the backward pass only scales them."""

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
        needed = ctx.needs_input_grad[:3]
        # The gradients of hidden, weight and bias; None for those that are not needed.
        gradients = [
            torch.zeros_like(each) if is_needed and each is not None else None
            for each, is_needed in zip((hidden, weight, bias), needed, strict=True)
        ]
        total = torch.zeros((), device=hidden.device)
        for start in range(0, len(hidden), chunk):
            part = slice(start, start + chunk)
            with torch.enable_grad():
                # The chunk has a graph of its own, which is freed with its logits.
                states = hidden[part].detach().requires_grad_(needed[0])
                own_weight = weight.detach().requires_grad_(needed[1])
                own_bias = None if bias is None else bias.detach().requires_grad_(needed[2])
                nats = loss(states, own_weight, own_bias, labels[part])
                leaves = [leaf for leaf in (states, own_weight, own_bias) if leaf is not None and leaf.requires_grad]
                found = torch.autograd.grad(nats, leaves)
            total = total + nats.detach()
            # Every chunk has its own rows of the gradient of `hidden`; those of weight and bias are summed up.
            sums = [None if gradients[0] is None else gradients[0][part], *gradients[1:]]
            for sum_, gradient in zip((each for each in sums if each is not None), found, strict=True):
                sum_.add_(gradient)
        ctx.gradients = gradients
        return total

    @staticmethod
    def backward(ctx: Any, *outputs: torch.Tensor) -> Any:
        if ctx.gradients is None:
            raise RuntimeError("the gradients of this loss were used already: compute it again")
        # Scaled in place and given away, so that no copy of the gradient of the head is made.
        gradients, ctx.gradients, scale = ctx.gradients, None, outputs[0]
        return (*(None if each is None else each.mul_(scale) for each in gradients), None, None, None)
