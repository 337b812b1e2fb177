"""An embedding whose rows are put together from k small tables, in place of `torch.nn.Embedding`."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.functional import embedding

from relexify.errors import InputError
from relexify.systems.compression.codes import check_codes, digit_codes, split_width, table_sizes

__all__ = ["SharedSubEmbedding", "SubEmbedding"]


class SubEmbedding(nn.Module):
    """Row n is the rows of k tables side by side, table i at the i-th digit of token n.

    Attributes:
        num_embeddings: Tokens, N.
        embedding_dim: Width, d.
        tables: The parameters, k tables [M_i × d_i], with Σ d_i = d.
        codes: The digits of every token [N × k], a buffer that is saved with the model.
        padding_idx: The token that no gradient comes from. Its row is put together like any other, and since it shares
            its parts with other tokens it is not zero, as it may be in `nn.Embedding`.
        scale: What rows are multiplied with on the way out, where the replaced embedding did so.
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
        device: Any = None,
    ) -> None:
        """A sub-embedding with tables drawn from N(0, 1), as `nn.Embedding` does.

        Args:
            num_embeddings: Tokens, N.
            embedding_dim: Width, d.
            k: How many tables; as many as `codes` has digits, if not given.
            codes: A different code for every token [N × k]; the digits of its number (Algorithm 1) if not given.
            rows: Of each table; as many as the codes need, if not given.
            padding_idx: A token to ignore.
            scale: To multiply rows with.
            dtype: Of the tables.
            device: Of tables and codes.

        Raises:
            InputError: Codes, tables and width do not fit together.
        """
        super().__init__()
        k = k or (codes.shape[1] if codes is not None else len(rows or ()) or 2)
        given = digit_codes(num_embeddings, k, rows) if codes is None else check_codes(codes, num_embeddings)
        rows = rows or table_sizes(given)
        _check_fit(given, rows, k)
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx, self.scale = padding_idx, scale
        self.widths = split_width(embedding_dim, k)
        # Tables of one width can be stacked, and looked up in at once, where they begin at multiples of one number.
        self._stacked = len(set(self.widths)) == 1 and len(set(rows[:-1])) <= 1
        self.tables = nn.ParameterList(
            nn.Parameter(torch.randn(size, width, dtype=dtype, device=device))
            for size, width in zip(rows, self.widths, strict=True)
        )
        self.register_buffer("codes", torch.from_numpy(given).to(device or torch.get_default_device()))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Rows of tokens [… × d]."""
        found = self._looked_up(embedding(ids, self.codes))
        if self.scale != 1.0:
            found = found * self.scale
        if self.padding_idx is not None and found.requires_grad:
            found = torch.where((ids == self.padding_idx)[..., None], found.detach(), found)
        return found

    def _looked_up(self, digits: torch.Tensor) -> torch.Tensor:
        """Rows of codes [… × k]: one lookup in all tables where they are stacked, else k and a concatenation."""
        tables = list(self.tables)
        if self._stacked:
            # Few operations, since a GPU does each sooner than it is told to.
            step = len(tables[0])
            starts = torch.arange(0, step * len(tables), step, dtype=digits.dtype, device=digits.device)
            return embedding(digits + starts, torch.cat(tables)).flatten(-2)
        return torch.cat([embedding(digits[..., place], table) for place, table in enumerate(tables)], dim=-1)

    @property
    def weight(self) -> torch.Tensor:
        """The whole embedding [N × d], put together anew each time it is asked for.

        It is for code that wants to look at rows or at their shape, costs what a plain embedding does while it lives,
        and passes gradients on to the tables; what is written into it is lost.
        """
        return torch.cat([table[self.codes[:, place]] for place, table in enumerate(self.tables)], dim=1)

    @property
    def rows(self) -> list[int]:
        """Rows of each table."""
        return [len(table) for table in self.tables]

    @torch.no_grad()
    def fill(self, codes: np.ndarray, tables: list[np.ndarray] | None = None) -> None:
        """Write codes [N × k], and values of tables [M_i × d_i] where they are given."""
        self.codes.copy_(torch.from_numpy(check_codes(codes, self.num_embeddings)))
        if tables is not None:
            for parameter, values in zip(self.tables, tables, strict=True):
                parameter.copy_(torch.from_numpy(values))

    def extra_repr(self) -> str:
        """Its measures."""
        return f"{self.num_embeddings}, {self.embedding_dim}, rows={self.rows}, padding_idx={self.padding_idx}"


class SharedSubEmbedding(nn.Module):
    """Another place where a model looks tokens up in the same tables, such as the decoder beside the encoder.

    It has no parameters of its own and holds the sub-embedding without owning it, so that tables are saved and counted
    once.
    """

    def __init__(self, shared: SubEmbedding, scale: float = 1.0) -> None:
        super().__init__()
        self.scale = scale
        self._elsewhere = (shared,)  # a module inside a tuple is not registered

    @property
    def weight(self) -> torch.Tensor:
        """As that of `SubEmbedding`."""
        return self._elsewhere[0].weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Rows of tokens [… × d]."""
        rows: torch.Tensor = self._elsewhere[0](ids)
        return rows if self.scale == 1.0 else rows * self.scale


def _check_fit(codes: np.ndarray, rows: list[int], k: int) -> None:
    needed = table_sizes(codes)
    if len(needed) != k or len(rows) != k or any(have < need for have, need in zip(rows, needed, strict=True)):
        raise InputError(f"the codes need tables of {needed} rows, but {k} tables of {rows} rows were asked for")
