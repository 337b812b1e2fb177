"""Logits from the tables of a sub-embedding, without the N × d matrix that they stand for.

A token's row is the rows of k tables side by side, so its product with a hidden state is a sum of k products:

    h · E[n] = Σ_i h_i · T_i[f_i(n)],

where h_i are the columns of table i. All products of h_i with the M_i rows of T_i are M_i · d_i operations, and a
token's logit adds up k of them: Σ M_i d_i + N k instead of N d. Training needs no logits (see `vocabulary_sum.py`).
"""

from __future__ import annotations

from itertools import accumulate

import torch
from torch import nn
from torch.nn.functional import embedding_bag, linear

from relexify.models.sub_embedding import SubEmbedding

__all__ = ["FactoredHead", "factored_logits"]

MOST_LOGITS = 2**31 - 1
"""At once: the gradient of `embedding_bag` on a GPU counts places in 32 bits, and errs beyond without a word."""


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
        scores = factored_logits(flat, list(self.embedding.tables), self.embedding.codes)
        logits = scores.t().reshape(*hidden.shape[:-1], self.out_features)
        return logits if self.bias is None else logits + self.bias.to(logits.dtype)

    def extra_repr(self) -> str:
        """Its measures."""
        return f"{self.in_features}, {self.out_features}, bias={self.bias is not None}, tied={bool(self._elsewhere)}"


def factored_logits(hidden: torch.Tensor, tables: list[torch.Tensor], codes: torch.Tensor) -> torch.Tensor:
    """Logits without bias, tokens first: [N × n].

    Tokens come first since adding up k whole rows of scores is what `embedding_bag` is made for: memory is read and
    written in one direction, nothing but the sum is kept, and its gradient has a fixed order on every device.

    Args:
        hidden: [n × d].
        tables: k tables [M_i × d_i].
        codes: [N × k].
    """
    if len(hidden) > 1 and len(codes) * len(hidden) > MOST_LOGITS:
        few = torch.split(hidden, max(1, MOST_LOGITS // len(codes)))
        return torch.cat([factored_logits(each, tables, codes) for each in few], dim=1)
    parts = torch.split(hidden, [table.shape[1] for table in tables], dim=-1)
    scores = torch.cat([linear(table, part) for table, part in zip(tables, parts, strict=True)])  # [Σ M_i × n]
    starts = accumulate((len(table) for table in tables[:-1]), initial=0)
    places = torch.stack([codes[:, digit] + start for digit, start in enumerate(starts)], dim=1)
    return embedding_bag(places, scores, mode="sum")
