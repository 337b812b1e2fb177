"""Drop-in replacements for `nn.Embedding` and for the output head, over k small tables.

**Lookup.** Row n is the concatenation of one row from each of the k tables, selected by the digits of token n:

    E[n] = T_1[f_1(n)] ⊕ … ⊕ T_k[f_k(n)].

**Head.** The product of a row with a hidden state h is a sum of k products,

    h · E[n] = Σ_i h_i · T_i[f_i(n)],

where h_i is the part of h that belongs to table i. The products of h_i with the M_i rows of T_i take M_i · d_i
operations, and a token's logit is the sum of k such products. In total, this takes Σ M_i d_i + N k operations instead
of N d. The dense matrix is never built. Training does not even need the logits: see `loss.py`.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn
from torch.nn.functional import embedding

from relexify.errors import InputError
from relexify.systems.compression.codes import check_codes, digit_codes, table_sizes
from relexify.systems.compression.head import EmbeddingHead
from relexify.systems.compression.loss import (
    CodePrefixes,
    PrefixPlan,
    code_prefixes,
    factored_logits,
    factored_nats,
    plan_prefixes,
)
from relexify.systems.compression.tables import split_width

if TYPE_CHECKING:
    from relexify.training.loss.chunked import ChunkLoss

__all__ = ["FactoredHead", "SubEmbedding"]

CHUNK_LOGITS = 2**29
"""Maximum number of logits of a chunk; on a GPU, summing their gradients takes another twice their memory."""
CHUNK_PREFIX_SCORES = 2**28
"""Maximum number of prefix scores of a chunk; a few arrays of this size are in memory at once, in float32."""


class SubEmbedding(nn.Module):
    """An embedding whose rows are composed from k tables.

    Attributes:
        num_embeddings: Number of tokens, N.
        embedding_dim: Width, d.
        widths: Width of each table, d_i, with Σ d_i = d.
        tables: The parameters, k tables [M_i × d_i].
        codes: The digits of every token [N × k], a buffer that is saved with the model.
        padding_idx: A token that contributes no gradient. Unlike in `nn.Embedding`, its row is not zero, because its
            parts are shared with other tokens.
        scale: A factor for all rows, if the replaced embedding had one.
    """

    codes: torch.Tensor

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        k: int | None = None,
        codes: np.ndarray | None = None,
        *,
        rows: list[int] | None = None,
        padding_idx: int | None = None,
        scale: float = 1.0,
        dtype: torch.dtype | None = None,
        device: torch.device | None = None,
    ) -> None:
        """Create a sub-embedding with tables drawn from N(0, 1), as in `nn.Embedding`.

        Args:
            num_embeddings: Number of tokens, N.
            embedding_dim: Width, d.
            k: Number of tables; by default the number of digits of `codes`.
            codes: A distinct code for every token [N × k]; by default the digits of its index (Algorithm 1).
            rows: Number of rows of each table; by default as many as the codes need.
            padding_idx: A token to ignore.
            scale: A factor for all rows.
            dtype: Number format of the tables.
            device: Device of tables and codes.

        Raises:
            InputError: Codes, tables and width do not match.
        """
        super().__init__()
        if k is None:
            k = codes.shape[1] if codes is not None else len(rows or ()) or 2
        checked = digit_codes(num_embeddings, k, rows) if codes is None else check_codes(codes, num_embeddings)
        needed = table_sizes(checked)
        rows = rows or needed
        if len(needed) != k or len(rows) != k or any(size < least for size, least in zip(rows, needed, strict=True)):
            raise InputError(f"the codes need tables of {needed} rows, but {k} tables of {rows} rows were requested")
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = padding_idx
        self.scale = scale
        self.widths = split_width(embedding_dim, k)
        # Tables of equal width can be stacked for a single lookup, if each starts at a multiple of the same number.
        self._stackable = len(set(self.widths)) == 1 and len(set(rows[:-1])) <= 1
        self.tables = nn.ParameterList(
            nn.Parameter(torch.randn(size, width, dtype=dtype, device=device))
            for size, width in zip(rows, self.widths, strict=True)
        )
        self.register_buffer("codes", torch.from_numpy(checked).to(device or torch.get_default_device()))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Return the rows of tokens [… × d]."""
        digits = embedding(ids, self.codes)  # [… × k]
        tables = list(self.tables)
        if self._stackable:
            # A single lookup for all tables: on a GPU, launching k lookups would take longer than running them.
            step = len(tables[0])
            starts = torch.arange(0, step * len(tables), step, dtype=digits.dtype, device=digits.device)
            rows = embedding(digits + starts, torch.cat(tables)).flatten(-2)
        else:
            rows = torch.cat([embedding(digits[..., index], table) for index, table in enumerate(tables)], dim=-1)
        if self.scale != 1.0:
            rows = rows * self.scale
        if self.padding_idx is not None and rows.requires_grad:
            rows = torch.where((ids == self.padding_idx)[..., None], rows.detach(), rows)
        return rows

    @property
    def weight(self) -> torch.Tensor:
        """The dense embedding [N × d], computed on each access.

        It is for code that reads rows or their shape. It takes as much memory as a plain embedding, and passes
        gradients on to the tables. Values written to it are lost.
        """
        return torch.cat([table[self.codes[:, index]] for index, table in enumerate(self.tables)], dim=1)

    @property
    def rows(self) -> list[int]:
        """Number of rows of each table, M_i."""
        return [len(table) for table in self.tables]

    @torch.no_grad()
    def fill(self, codes: np.ndarray, tables: list[np.ndarray] | None = None) -> None:
        """Write codes [N × k] and, if given, the values of all tables [M_i × d_i]."""
        self.codes.copy_(torch.from_numpy(check_codes(codes, self.num_embeddings)))
        if tables is not None:
            for parameter, values in zip(self.tables, tables, strict=True):
                parameter.copy_(torch.from_numpy(values))

    def extra_repr(self) -> str:
        """Return the sizes, for `repr`."""
        return f"{self.num_embeddings}, {self.embedding_dim}, rows={self.rows}, padding_idx={self.padding_idx}"


class FactoredHead(EmbeddingHead[SubEmbedding]):
    """The output head of a language model over a sub-embedding, in place of `nn.Linear`."""

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Return the logits [… × N] of hidden states [… × d]."""
        flat = hidden.reshape(-1, self.in_features)
        logits = factored_logits(flat, list(self.embedding.tables), self.embedding.codes)
        logits = logits.reshape(*hidden.shape[:-1], self.out_features)
        return logits if self.bias is None else logits + self.bias.to(logits.dtype)

    # The training loss, which needs no logits: see `relexify.training.protocol.ChunkedHead`.

    def loss_weight(self) -> torch.Tensor:
        """Return all tables, flattened into one vector [Σ M_i d_i]."""
        return torch.cat([table.flatten() for table in self.embedding.tables])

    def chunk_positions(self, most: int) -> int:
        """Return the number of positions of a chunk: `most`, or a smaller power of two."""
        plan = self._plan_prefixes()
        fitting = CHUNK_LOGITS // self.out_features if plan is None else CHUNK_PREFIX_SCORES // plan.prefixes
        return min(most, 1 << (max(1, fitting).bit_length() - 1))

    def chunk_loss(self, *, compiled: bool = False) -> ChunkLoss:
        """Return a function for the summed negative log likelihood of a chunk; compiled code expects a fixed size."""
        plan = self._plan_prefixes()
        nats = torch.compile(factored_nats, dynamic=False) if compiled else factored_nats

        @functools.cache
        def prefixes_on(device: torch.device) -> CodePrefixes | None:
            # Built on the first call, because a trainer moves the model to its device after `chunk_loss` has returned.
            if plan is None:
                return None
            return code_prefixes(self.embedding.codes.numpy(force=True), self.embedding.rows, plan, device)

        def chunk_nats(
            hidden: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, labels: torch.Tensor
        ) -> torch.Tensor:
            shapes = [table.shape for table in self.embedding.tables]
            flat = torch.split(weight, [shape.numel() for shape in shapes])
            tables = [part.view(shape) for part, shape in zip(flat, shapes, strict=True)]
            return nats(hidden, tables, bias, labels, self.embedding.codes, prefixes_on(hidden.device))

        return chunk_nats

    def _plan_prefixes(self) -> PrefixPlan | None:
        return plan_prefixes(self.embedding.codes.numpy(force=True), self.embedding.rows)
