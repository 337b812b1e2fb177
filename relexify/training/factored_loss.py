"""The loss of a head that scores with the tables of a sub-embedding, chunk by chunk like that of a dense head."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from relexify.models import FactoredHead
from relexify.models.factored_head import factored_logits
from relexify.scoring import IGNORED
from relexify.training.fused_loss import ChunkLoss, chunk_nats

__all__ = ["chunk_loss", "chunk_places", "head_weight"]

LOGITS = 2**29
"""Of a chunk, at most: what sums up their gradients on a GPU takes twice their memory beside them."""


def head_weight(head: Any) -> torch.Tensor:
    """What a head scores with, as one tensor: the matrix [V × d], or all numbers of the tables in a row."""
    if isinstance(head, FactoredHead):
        return torch.cat([table.flatten() for table in head.embedding.tables])
    weight: torch.Tensor = head.weight
    return weight


def chunk_places(head: Any, most: int) -> int:
    """How many places a chunk should have: `most`, or fewer (a power of two) where the head has tables."""
    if not isinstance(head, FactoredHead):
        return most
    fitting = max(1, LOGITS // head.out_features)
    return min(most, 1 << (fitting.bit_length() - 1))


def chunk_loss(head: nn.Module) -> ChunkLoss:
    """The summed negative log likelihood of some places under a head, given its `head_weight`."""
    if not isinstance(head, FactoredHead):
        return chunk_nats
    shapes = [table.shape for table in head.embedding.tables]

    def factored_nats(
        hidden: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, labels: torch.Tensor
    ) -> torch.Tensor:
        flat = torch.split(weight, [shape.numel() for shape in shapes])
        tables = [part.view(shape) for part, shape in zip(flat, shapes, strict=True)]
        logits = factored_logits(hidden, tables, head.embedding.codes)
        if bias is not None:
            logits = logits + bias.to(logits.dtype)[:, None]
        wide = logits if logits.dtype == torch.float64 else logits.float()
        # Tokens come first here, and places are what cross-entropy calls pixels.
        return cross_entropy(wide[None], labels[None], ignore_index=IGNORED, reduction="sum")

    return factored_nats
