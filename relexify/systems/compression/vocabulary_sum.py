"""The sum over the vocabulary that a softmax divides by, from the tables of a sub-embedding and without logits.

A token's logit is a sum of k scores, one for each digit of its code, and a bias. With tokens as cells (u, m) of a
matrix, prefix by last digit (`CodePrefixes`), with q_u the scores of the other digits and s_m that of the last,

    log Σ_n exp(logit_n) = log Σ_u exp(q_u) G_u,    G_u = Σ_m B_um exp(s_m),

where B has exp(bias) in the cells of tokens and zero elsewhere. So it takes a product with B [U × M] and U numbers a
place instead of N; and its gradients are products and sums too, without two that are added at one address.
"""

from __future__ import annotations

from typing import Any

import torch

from relexify.systems.compression.prefixes import CodePrefixes

__all__ = ["log_vocabulary_sum"]

REACH = {torch.float32: 75.0, torch.float64: 700.0}
"""Nats to both sides in which exp, and the sum of a row of such, are numbers of full precision."""

NOWHERE = -1e30
"""The logarithm of nothing, but finite."""


def log_vocabulary_sum(
    scores: torch.Tensor, rows: list[int], prefixes: CodePrefixes, bias: torch.Tensor | None
) -> torch.Tensor:
    """The logarithm of the summed exponentials of all tokens' logits, [n].

    It is exact up to rounding as long as the scores of the last digit lie within 150 nats at every place (1400 in
    float64), whatever the others do. A score that lies lower is counted as if it lay at that border: the sum is then
    too large and never too small, so that no loss becomes negative or NaN by it. Biases of one prefix should lie within
    80 nats; a token that lies lower by more than that is left out, as one with a bias of -inf is.

    Args:
        scores: Of all digits, those of a table side by side [n × Σ M_i], float32 or float64.
        rows: M_i of every table.
        prefixes: The tokens.
        bias: One number a token [N].
    """
    parts = list(torch.split(scores, rows, dim=1))
    last = parts.pop(prefixes.plan.last)
    odds, lift = _odds(prefixes, last.shape[1], bias, scores)
    others = torch.cat(parts, dim=1) if parts else scores.new_zeros(len(scores), 0)
    sizes = tuple(part.shape[1] for part in parts)
    found = _VocabularySum.apply(others, last, odds, lift, prefixes.columns, prefixes.members, sizes)  # type: ignore[no-untyped-call]
    return found  # type: ignore[no-any-return]


def _odds(
    prefixes: CodePrefixes, rows: int, bias: torch.Tensor | None, like: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """B [U × M] with each row divided by its largest number, and the logarithms of these [U]."""
    values = like.new_zeros(len(prefixes.cells)) if bias is None else bias.to(like.dtype)
    empty = like.new_full((prefixes.plan.prefixes * rows,), float("-inf"))
    grid = empty.index_copy(0, prefixes.cells, values).view(prefixes.plan.prefixes, rows)
    lift = grid.detach().amax(1).clamp(min=NOWHERE)
    return torch.exp(grid - lift[:, None]), lift


class _VocabularySum(torch.autograd.Function):
    """Keeps [n × U] numbers once for the backward pass: the scores of prefixes are added up again there."""

    @staticmethod
    def forward(
        ctx: Any,
        others: torch.Tensor,
        last: torch.Tensor,
        odds: torch.Tensor,
        lift: torch.Tensor,
        columns: torch.Tensor | None,
        members: torch.Tensor | None,
        sizes: tuple[int, ...],
    ) -> torch.Tensor:
        reach = REACH[last.dtype]
        top = last.amax(1, keepdim=True)
        powers = torch.exp((last - top).clamp(min=-2 * reach) + reach)
        sums = _product(powers, odds.T)
        total = torch.logsumexp(_prefix_scores(others, columns, sizes).add_(lift).add_(sums.log()), 1)
        ctx.save_for_backward(others, powers, odds, lift, sums, total, columns, members)
        ctx.sizes = sizes
        return total + top.squeeze(1) - reach

    @staticmethod
    def backward(ctx: Any, *outputs: torch.Tensor) -> Any:
        others, powers, odds, lift, sums, total, columns, members = ctx.saved_tensors
        # The derivative by G_u, exp(q_u) / Σ; that by q_u has G_u besides.
        slopes = _prefix_scores(others, columns, ctx.sizes).add_(lift).sub_(total[:, None]).exp_()
        slopes = slopes.mul_(outputs[0][:, None])
        to_last = _product(slopes, odds) * powers if ctx.needs_input_grad[1] else None
        # Cells without a token may be beyond all numbers; finite, they become zero with the odds.
        most = torch.finfo(odds.dtype).max
        to_odds = _product(slopes.T, powers).clamp_(-most, most) if ctx.needs_input_grad[2] else None
        to_others = _by_digit(slopes.mul_(sums), members, ctx.sizes) if ctx.needs_input_grad[0] else None
        return to_others, to_last, to_odds, None, None, None, None


def _prefix_scores(others: torch.Tensor, columns: torch.Tensor | None, sizes: tuple[int, ...]) -> torch.Tensor:
    """The summed scores of every prefix [n × U]."""
    if columns is not None:
        found = others.index_select(1, columns[0])
        for each in columns[1:]:
            found += others.index_select(1, each)
        return found
    parts = torch.split(others, list(sizes), dim=1) if sizes else ()
    found = parts[0].clone() if parts else others.new_zeros(len(others), 1)
    for part in parts[1:]:
        found = (found[:, :, None] + part[:, None, :]).flatten(1)
    return found


def _by_digit(prefixes: torch.Tensor, members: torch.Tensor | None, sizes: tuple[int, ...]) -> torch.Tensor:
    """What prefixes have [n × U], summed up for each digit of theirs [n × Σ M_i]."""
    if members is not None:
        return _product(prefixes, members.to(prefixes.dtype))
    if not sizes:
        return prefixes.new_zeros(len(prefixes), 0)
    grid = prefixes.view(len(prefixes), *sizes)
    axes = range(1, len(sizes) + 1)
    return torch.cat(
        [grid.sum([axis for axis in axes if axis != kept]) if len(sizes) > 1 else grid for kept in axes], 1
    )


def _product(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """In the precision of its factors, whatever autocast would do."""
    with torch.autocast(left.device.type, enabled=False):
        return left @ right
