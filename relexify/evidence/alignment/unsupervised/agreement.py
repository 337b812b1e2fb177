"""How well two spaces agree: words that are one another's nearest by CSLS."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

__all__ = ["Agreement", "mutual_neighbours"]

BLOCK_CELLS = 1 << 24
"""Similarities held at a time."""


@dataclass(frozen=True, eq=False)
class Agreement:
    """The words of two spaces that are one another's nearest.

    Attributes:
        source: Rows of the source space, rising, int64 [pairs].
        target: Their neighbours, int64 [pairs].
        mean: Mean CSLS of the pairs, 0 where there are none.
        cosine: Their mean cosine.
        share: The share of source words that are in a pair.
    """

    source: np.ndarray
    target: np.ndarray
    mean: float
    cosine: float
    share: float

    def __len__(self) -> int:
        return len(self.source)

    @property
    def strength(self) -> float:
        """Mean CSLS over all words, those without a mutual neighbour counting nothing: how finished maps are judged.

        The share alone is high in any data of few dimensions, and the mean CSLS alone where few pairs are left.
        """
        return self.mean * self.share

    @property
    def closeness(self) -> float:
        """The same with cosines: what maps are judged by during a game.

        CSLS falls while two clouds approach each other, and rises only where the words of both begin to meet.
        """
        return self.cosine * self.share


@torch.no_grad()
def mutual_neighbours(source: torch.Tensor, target: torch.Tensor, k: int = 10) -> Agreement:
    """Find the pairs that are nearest in both directions by CSLS (Conneau et al., 2018).

    CSLS(x, y) = 2 cos(x, y) − r(x) − r(y), r being the mean cosine to the k nearest of the other space.

    Args:
        source: [n × d].
        target: [m × d].
        k: Neighbours that a mean is taken over.
    """
    source, target = (torch.nn.functional.normalize(rows, dim=1) for rows in (source, target))
    columns = target.T
    size = max(1, BLOCK_CELLS // len(target))
    blocks = [slice(start, start + size) for start in range(0, len(source), size)]
    by_row, by_column = [], source.new_zeros(0, len(target))
    for block in blocks:
        cosines = source[block] @ columns
        by_row.append(cosines.topk(min(k, len(target)), dim=1).values.mean(dim=1))
        by_column = torch.cat([by_column, cosines.topk(min(k, len(cosines)), dim=0).values])
        by_column = by_column.topk(min(k, len(by_column)), dim=0).values
    crowding = by_column.mean(dim=0)
    best_of_source, values = [], []
    best_value = torch.full_like(crowding, -torch.inf)
    best_of_target = torch.zeros_like(crowding, dtype=torch.int64)
    for block, row in zip(blocks, by_row, strict=True):
        scores = 2 * (source[block] @ columns) - row[:, None] - crowding
        value, place = scores.max(dim=1)
        best_of_source.append(place)
        values.append(value)
        value, place = scores.max(dim=0)
        better = value > best_value
        best_value = torch.where(better, value, best_value)
        best_of_target = torch.where(better, place + block.start, best_of_target)
    found = torch.cat(best_of_source)
    rows = torch.arange(len(source), device=source.device)
    mutual = best_of_target[found] == rows
    some = bool(mutual.any())
    cosines = (source * target[found]).sum(dim=1)
    return Agreement(
        rows[mutual].cpu().numpy(),
        found[mutual].cpu().numpy(),
        mean=float(torch.cat(values)[mutual].double().mean()) if some else 0.0,
        cosine=float(cosines[mutual].double().mean()) if some else 0.0,
        share=float(mutual.double().mean()),
    )
