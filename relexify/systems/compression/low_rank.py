"""An embedding as two factors, E = F P: coordinates of every token and a basis that all tokens share.

This is the factorised form of OFA (Liu et al., 2024); ALBERT trains the same form from scratch. It has N r + r d
parameters instead of N d. Unlike in a sub-embedding, every token has its own parameters. The head computes F (P h).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn
from torch.nn.functional import embedding, linear

from relexify.systems.compression.head import EmbeddingHead
from relexify.training.loss.chunked import dense_chunk_loss

if TYPE_CHECKING:
    from relexify.training.loss.chunked import ChunkLoss

__all__ = ["LowRankEmbedding", "LowRankHead"]


class LowRankEmbedding(nn.Module):
    """An embedding whose rows are combinations of r common rows, in place of `nn.Embedding`.

    Attributes:
        num_embeddings: Number of tokens, N.
        embedding_dim: Width, d.
        coordinates: F [N × r].
        basis: P [r × d].
        padding_idx: A token that contributes no gradient.
        scale: A factor for all rows, if the replaced embedding had one.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        rank: int,
        *,
        padding_idx: int | None = None,
        scale: float = 1.0,
        dtype: torch.dtype | None = None,
        device: torch.device | None = None,
    ) -> None:
        """Create an embedding whose factors are zero; they must be filled or loaded.

        Args:
            num_embeddings: Number of tokens, N.
            embedding_dim: Width, d.
            rank: Number of common rows, r.
            padding_idx: A token to ignore.
            scale: A factor for all rows.
            dtype: Number format of the factors.
            device: Device of the factors.
        """
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = padding_idx
        self.scale = scale
        self.coordinates = nn.Parameter(torch.zeros(num_embeddings, rank, dtype=dtype, device=device))
        self.basis = nn.Parameter(torch.zeros(rank, embedding_dim, dtype=dtype, device=device))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Return the rows of tokens [… × d]."""
        rows = linear(embedding(ids, self.coordinates), self.basis.t())
        if self.padding_idx is not None and rows.requires_grad:
            rows = torch.where((ids == self.padding_idx)[..., None], rows.detach(), rows)
        return rows if self.scale == 1.0 else rows * self.scale

    @property
    def weight(self) -> torch.Tensor:
        """The dense embedding [N × d], computed on each access; values written to it are lost."""
        return self.coordinates @ self.basis

    @torch.no_grad()
    def fill(self, coordinates: np.ndarray, basis: np.ndarray) -> None:
        """Write both factors, F [N × r] and P [r × d]."""
        self.coordinates.copy_(torch.from_numpy(coordinates))
        self.basis.copy_(torch.from_numpy(basis))

    def extra_repr(self) -> str:
        """Return the sizes, for `repr`."""
        return f"{self.num_embeddings}, {self.embedding_dim}, rank={len(self.basis)}, padding_idx={self.padding_idx}"


class LowRankHead(EmbeddingHead[LowRankEmbedding]):
    """The output head of a language model over a low-rank embedding, in place of `nn.Linear`."""

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Return the logits [… × N] of hidden states [… × d]."""
        return linear(linear(hidden, self.embedding.basis), self.embedding.coordinates, self.bias)

    def loss_weight(self) -> torch.Tensor:
        """Return both factors, flattened into one vector [N r + r d]."""
        return torch.cat([self.embedding.coordinates.flatten(), self.embedding.basis.flatten()])

    def chunk_positions(self, most: int) -> int:
        """Return `most`: a chunk has the same number of logits as with a dense head."""
        return most

    def chunk_loss(self, *, compiled: bool = False) -> ChunkLoss:
        """Return a function for the summed negative log likelihood of a chunk."""
        rank, width = self.embedding.basis.shape

        def low_rank_nats(
            hidden: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, labels: torch.Tensor
        ) -> torch.Tensor:
            coordinates, basis = torch.split(weight, [weight.numel() - rank * width, rank * width])
            return dense_chunk_loss(linear(hidden, basis.view(rank, width)), coordinates.view(-1, rank), bias, labels)

        return torch.compile(low_rank_nats, dynamic=False) if compiled else low_rank_nats
