"""The loss of a large vocabulary without its logits: head and cross-entropy together, a few thousand tokens at a time.

The logits of 64 × 512 tokens over 32,000 words take four gigabytes in float32, and as much again for their gradient.
Here a chunk's logits live only until the chunk's gradients are known, which is in the forward pass already, since the
loss is what everything ends in. No product is computed twice.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, sqrt
from typing import Any

import torch
from torch.nn.functional import cross_entropy, linear

from relexify.pretrained.architecture import IGNORED

__all__ = ["chunked_loss", "dense_chunk_loss", "labelled_positions"]

CHUNK = 4_096
ROUND = 64

ChunkLoss = Callable[[torch.Tensor, torch.Tensor, torch.Tensor | None, torch.Tensor], torch.Tensor]


def dense_chunk_loss(
    hidden: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, labels: torch.Tensor
) -> torch.Tensor:
    """The summed negative log likelihood of some places: hidden [n × d], weight [V × d], bias [V], labels [n]."""
    logits = linear(hidden, weight, bias)
    wide = logits if logits.dtype == torch.float64 else logits.float()
    return cross_entropy(wide, labels, ignore_index=IGNORED, reduction="sum")


def labelled_positions(
    hidden: torch.Tensor, labels: torch.Tensor, share: float, *, fixed: bool
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The places that have a label: at the others the head of a masked language model has no work.

    Args:
        hidden: What would go into the head [… × d].
        labels: The token of every place, `IGNORED` where none counts [same … as `hidden`].
        share: Of the places, how many are expected to have a label.
        fixed: Give a number of places that follows from the shape alone, as compiled code and recorded graphs need it:
            ten deviations more than expected, the last of them without a label.

    Returns:
        The places [n × d], their labels [n], and what to add to the loss: zero, or not a number if the places did not
        suffice, so that no label is ever lost silently.
    """
    flat, targets = hidden.reshape(-1, hidden.shape[-1]), labels.reshape(-1)
    has_label = targets != IGNORED
    if not fixed:
        places = has_label.nonzero().squeeze(1) if has_label.any() else targets.new_zeros(1)
        return flat.index_select(0, places), targets[places], torch.zeros((), device=flat.device)
    room = _room(len(targets), share)
    rank = has_label.cumsum(0)
    # Whatever has no label, or no room, goes to a last slot that nobody reads.
    slots = torch.where(has_label, rank - 1, room).clamp(max=room)
    everywhere = torch.arange(len(targets), device=targets.device)
    places = targets.new_zeros(room + 1).scatter(0, slots, everywhere)[:room]
    wanted = targets.new_full((room + 1,), IGNORED).scatter(0, slots, targets)[:room]
    lost = torch.zeros((), device=flat.device).masked_fill(rank[-1] > room, float("nan"))
    return flat.index_select(0, places), wanted, lost


def _room(places: int, share: float) -> int:
    """Places enough for the labels of a batch."""
    likely = places * share + 10 * sqrt(places * share * (1 - share))
    return min(max(ceil(likely / ROUND), 1) * ROUND, places)


def chunked_loss(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    labels: torch.Tensor,
    *,
    chunk: int = CHUNK,
    loss: ChunkLoss = dense_chunk_loss,
) -> torch.Tensor:
    """The summed negative log likelihood of `labels` under the head, in nats.

    Args:
        hidden: What goes into the head [… × d].
        weight: Of the head [V × d].
        bias: Of the head [V], if it has one.
        labels: The token of every place, `IGNORED` where none counts [same … as `hidden`].
        chunk: Places at a time.
        loss: What is computed for a chunk; `dense_chunk_loss`, or that compiled.
    """
    flat, targets = hidden.reshape(-1, hidden.shape[-1]), labels.reshape(-1)
    if torch.is_grad_enabled() and any(each is not None and each.requires_grad for each in (flat, weight, bias)):
        return _ChunkedLoss.apply(flat, weight, bias, targets, chunk, loss)  # type: ignore[no-any-return, no-untyped-call]
    parts = [slice(start, start + chunk) for start in range(0, len(flat), chunk)]
    return torch.stack([loss(flat[part], weight, bias, targets[part]) for part in parts]).sum()


class _ChunkedLoss(torch.autograd.Function):
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
        whole = (hidden, weight, bias)
        sums = [
            torch.zeros_like(each) if want and each is not None else None
            for each, want in zip(whole, wanted, strict=True)
        ]
        total = torch.zeros((), device=hidden.device)
        for start in range(0, len(hidden), chunk):
            part = slice(start, start + chunk)
            with torch.enable_grad():
                leaves = [_leaf(each, want) for each, want in zip((hidden[part], weight, bias), wanted, strict=True)]
                nats = loss(leaves[0], leaves[1], leaves[2], labels[part])
                needed = [leaf for leaf, want in zip(leaves, wanted, strict=True) if want]
                found = torch.autograd.grad(nats, needed)
            total = total + nats.detach()
            targets = [None if sums[0] is None else sums[0][part], *sums[1:]]
            for sum_, gradient in zip((each for each in targets if each is not None), found, strict=True):
                sum_.add_(gradient)
        ctx.gradients = sums
        return total

    @staticmethod
    def backward(ctx: Any, *outputs: torch.Tensor) -> Any:
        if ctx.gradients is None:
            raise RuntimeError("the gradients of this loss were already handed on: compute it again")
        # Scaled in place and given away, so that no copy of the head's gradient is made.
        gradients, ctx.gradients, scale = ctx.gradients, None, outputs[0]
        return (*(None if each is None else each.mul_(scale) for each in gradients), None, None, None)


def _leaf(tensor: Any, wanted: bool) -> Any:
    return None if tensor is None else tensor.detach().requires_grad_(wanted)
