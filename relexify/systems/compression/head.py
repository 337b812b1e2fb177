"""The common part of the output heads of compressed models: the embedding that gives the logits, and a bias."""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

import torch
from torch import nn

__all__ = ["EmbeddingHead"]


class _SmallEmbedding(Protocol):
    """An embedding with fewer parameters than its dense matrix."""

    num_embeddings: int
    embedding_dim: int

    @property
    def weight(self) -> torch.Tensor:
        """The dense embedding [N × d]."""


EmbeddingT = TypeVar("EmbeddingT", bound=_SmallEmbedding)


class EmbeddingHead(nn.Module, Generic[EmbeddingT]):
    """The output head of a language model over a small embedding, in place of `nn.Linear`.

    A subclass computes the logits, and the loss as described in `relexify.training.protocol.ChunkedHead`.

    Attributes:
        bias: One number per token [N], or None.
        is_tied: Whether the embedding is the input embedding; if not, it belongs to the head and is saved with it.
        in_features: Width, d.
        out_features: Number of tokens, N.
    """

    bias: nn.Parameter | None

    def __init__(self, embedding: EmbeddingT, bias: nn.Parameter | None = None, *, tied: bool = True) -> None:
        """Create a head.

        Args:
            embedding: The embedding that gives the logits.
            bias: One number per token [N].
            tied: Whether the embedding is the input embedding.
        """
        super().__init__()
        self.register_parameter("bias", bias)
        self.is_tied = tied
        self._shared = (embedding,) if tied else ()  # a module inside a tuple is not registered
        if not tied:
            self.own = embedding
        self.in_features = embedding.embedding_dim
        self.out_features = embedding.num_embeddings

    @property
    def embedding(self) -> EmbeddingT:
        """The embedding that gives the logits."""
        return self._shared[0] if self._shared else self.own

    @property
    def weight(self) -> torch.Tensor:
        """The dense matrix [N × d], computed on each access."""
        return self.embedding.weight

    def extra_repr(self) -> str:
        """Return the sizes, for `repr`."""
        return f"{self.in_features}, {self.out_features}, bias={self.bias is not None}, tied={self.is_tied}"
