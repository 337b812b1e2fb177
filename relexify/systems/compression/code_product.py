"""Sums of the scores that tokens' codes name, by one matrix product: how a GPU adds them up fastest.

Adding up k scores for each of N tokens is a product with a matrix of zeros and ones, [N × Σ M_i] with k ones a row.
Nearly all it multiplies with is zero; but a GPU multiplies matrices much faster than it gathers numbers, and Σ M_i is
mostly less than the width d of the dense matrix. Products with zero and one are exact and their sums are kept in
float32 (in float64, if the scores are), so that nothing is lost on the way to the result's own precision, unless torch
was told to multiply more coarsely (TF32).
"""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["padded_columns", "summed_scores"]

MOST_CELLS = 2**26
"""Of the matrix of zeros and ones at once; it is made for some tokens after the others, where all would be more."""

ALIGNED = 16
"""Scores of a place are a multiple of these, since products of rows at odd addresses take a slow way."""


def padded_columns(columns: int) -> int:
    """The next number of columns whose rows are aligned."""
    return -(-columns // ALIGNED) * ALIGNED


def summed_scores(scores: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """Sums over the scores of each token's code [n × N], in the dtype of the scores.

    The matrix of zeros and ones is not kept for the backward pass, which makes it anew. A score that is not finite
    makes all sums of its row NaN, as a hidden state that is not finite does in a dense head.

    Args:
        scores: Of n places [n × S].
        places: The k columns, all different, that each token adds up [N × k].
    """
    return _SummedScores.apply(scores, places)  # type: ignore[no-any-return, no-untyped-call]


class _SummedScores(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(places)
        ctx.columns = scores.shape[1]
        sums = scores.new_empty(len(scores), len(places))
        with torch.autocast(scores.device.type, enabled=False):
            for tokens in _blocks(len(places), ctx.columns):
                sums[:, tokens].addmm_(scores, _ones(places[tokens], ctx.columns, scores).t(), beta=0)
        return sums

    @staticmethod
    def backward(ctx: Any, *outputs: torch.Tensor) -> Any:
        (places,), slopes = ctx.saved_tensors, outputs[0]
        with torch.autocast(slopes.device.type, enabled=False):
            found = [
                slopes[:, tokens] @ _ones(places[tokens], ctx.columns, slopes)
                for tokens in _blocks(len(places), ctx.columns)
            ]
        return found[0] if len(found) == 1 else torch.stack(found).sum(0), None


def _blocks(tokens: int, columns: int) -> list[slice]:
    step = max(1, MOST_CELLS // columns)
    return [slice(start, min(start + step, tokens)) for start in range(0, tokens, step)]


def _ones(places: torch.Tensor, columns: int, like: torch.Tensor) -> torch.Tensor:
    """The matrix [tokens × S] of zeros, and of ones at the places [tokens × k]."""
    return like.new_zeros(len(places), columns).scatter_(1, places.long(), 1)
