"""Logits from the tables of a sub-embedding, without the N × d matrix that they stand for.

A token's row is the rows of k tables side by side, so its product with a hidden state is a sum of k products:

    h · E[n] = Σ_i h_i · T_i[f_i(n)],

where h_i are the columns of table i. All products of h_i with the M_i rows of T_i are M_i · d_i operations, and a
token's logit adds up k of them: Σ M_i d_i + N k instead of N d. A GPU adds them up by another product where there are
many places (see `code_product.py`). Training needs no logits (see `vocabulary_sum.py`).
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn.functional import embedding_bag, linear

from relexify.systems.compression.code_product import padded_columns, summed_scores
from relexify.systems.compression.embedding import SubEmbedding

if TYPE_CHECKING:
    from relexify.training.loss.chunked import ChunkLoss

__all__ = ["FactoredHead", "factored_logits"]

MOST_LOGITS = 2**31 - 1
"""At once: the gradient of `embedding_bag` on a GPU counts places in 32 bits, and errs beyond without a word."""

MANY_PLACES = 64
"""At once, for which a GPU makes the matrix of zeros and ones that adds up their scores."""


class FactoredHead(nn.Module):
    """The head of a language model over a sub-embedding, in place of `nn.Linear`.

    Attributes:
        bias: One number a token [N], or None.
        in_features: Width, d.
        out_features: Tokens, N.
    """

    bias: nn.Parameter | None

    def __init__(self, embedding: SubEmbedding, bias: nn.Parameter | None = None, *, tied: bool = True) -> None:
        """A head.

        Args:
            embedding: Whose tables it scores with.
            bias: One number a token [N].
            tied: The tables are the input embedding's; otherwise they are the head's own, and saved with it.
        """
        super().__init__()
        self.register_parameter("bias", bias)
        self._elsewhere = (embedding,) if tied else ()  # a module inside a tuple is not registered
        if not tied:
            self.own = embedding
        self.in_features, self.out_features = embedding.embedding_dim, embedding.num_embeddings

    @property
    def embedding(self) -> SubEmbedding:
        """The sub-embedding that it scores with."""
        return self._elsewhere[0] if self._elsewhere else self.own

    @property
    def weight(self) -> torch.Tensor:
        """The dense matrix that it stands for [N × d], put together anew each time; see `SubEmbedding.weight`."""
        return self.embedding.weight

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Logits [… × N] of hidden states [… × d]."""
        flat = hidden.reshape(-1, self.in_features)
        logits = factored_logits(flat, list(self.embedding.tables), self.embedding.codes)
        logits = logits.reshape(*hidden.shape[:-1], self.out_features)
        return logits if self.bias is None else logits + self.bias.to(logits.dtype)

    # The loss in training, which needs no logits: see `relexify.training.protocol.ChunkedHead`.

    def loss_weight(self) -> torch.Tensor:
        """Return all numbers of the tables in a row [Σ M_i d_i]."""
        return torch.cat([table.flatten() for table in self.embedding.tables])

    def chunk_positions(self, most: int) -> int:
        """Return how many positions a chunk should have: `most`, or a smaller power of two."""
        from relexify.systems.compression.loss import chunk_positions  # which imports this module

        return chunk_positions(self, most)

    def chunk_loss(self, *, compiled: bool = False) -> ChunkLoss:
        """Return a function for the summed negative log likelihood of a chunk."""
        from relexify.systems.compression.loss import chunk_loss

        return chunk_loss(self, compiled=compiled)

    def extra_repr(self) -> str:
        """Its measures."""
        return f"{self.in_features}, {self.out_features}, bias={self.bias is not None}, tied={bool(self._elsewhere)}"


def factored_logits(hidden: torch.Tensor, tables: list[torch.Tensor], codes: torch.Tensor) -> torch.Tensor:
    """Logits without bias [n × N].

    Args:
        hidden: [n × d].
        tables: k tables [M_i × d_i].
        codes: [N × k].
    """
    summed = _summed_by_product if _product_pays(hidden, tables) else _summed_by_bags
    return summed(hidden, tables, codes)


def _product_pays(hidden: torch.Tensor, tables: list[torch.Tensor]) -> bool:
    """A GPU has enough places to make the matrix for, and little more to multiply than the dense head, or less.

    Numbers of 16 bits are multiplied so fast that it may be more.
    """
    kind = hidden.device.type
    if kind != "cuda" or len(hidden) < MANY_PLACES:
        return False
    dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else hidden.dtype
    return sum(map(len, tables)) <= hidden.shape[1] * (2 if dtype.itemsize == 2 else 1)


def _summed_by_product(hidden: torch.Tensor, tables: list[torch.Tensor], codes: torch.Tensor) -> torch.Tensor:
    scores = [linear(part, table) for part, table in zip(_parts(hidden, tables), tables, strict=True)]
    columns = sum(map(len, tables))
    padding = scores[0].new_zeros(len(hidden), padded_columns(columns) - columns)
    return summed_scores(torch.cat([*scores, padding], dim=1), _places(tables, codes))


def _summed_by_bags(hidden: torch.Tensor, tables: list[torch.Tensor], codes: torch.Tensor) -> torch.Tensor:
    """Logits, with those of a token side by side in memory.

    So k whole rows of scores are added up, which is what `embedding_bag` is made for: memory is read and written in one
    direction, nothing but the sum is kept, and its gradient has a fixed order on every device.
    """
    if len(hidden) > 1 and len(codes) * len(hidden) > MOST_LOGITS:
        few = torch.split(hidden, max(1, MOST_LOGITS // len(codes)))
        return torch.cat([_summed_by_bags(each, tables, codes) for each in few])
    scores = torch.cat([linear(table, part) for part, table in zip(_parts(hidden, tables), tables, strict=True)])
    return embedding_bag(_places(tables, codes), scores, mode="sum").t()


def _parts(hidden: torch.Tensor, tables: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    return torch.split(hidden, [table.shape[1] for table in tables], dim=-1)


def _places(tables: list[torch.Tensor], codes: torch.Tensor) -> torch.Tensor:
    """Rows of the tables, one below the other, that tokens add up [N × k]."""
    starts = accumulate((len(table) for table in tables[:-1]), initial=0)
    return torch.stack([codes[:, digit] + start for digit, start in enumerate(starts)], dim=1)
