"""The logits of a factored head, and its training loss without logits.

The cross-entropy of a label y is log Σ_n exp(logit_n) - logit_y. A token's logit is the sum of the scores of its k
digits, plus a bias. The label's logit is therefore cheap; only the sum over the vocabulary is expensive.

Choose one digit, called the *last* (it need not be digit k), and call the other digits the token's *prefix*. Arrange
the tokens as cells (u, m) of a matrix, prefix by last digit. With q_u the summed score of a prefix, and s_m the score
of a last digit,

    log Σ_n exp(logit_n) = log Σ_u exp(q_u) G_u,    G_u = Σ_m B_um exp(s_m),

where B [U × M] has exp(bias) in the cells of tokens and zero elsewhere. Each position thus needs one product with B,
and U numbers instead of N, where U is at most M^(k-1). The gradients are also products and sums; they need no atomic
additions to the same address.

If the codes are so scattered that B would be too large, the loss is computed from logits, chunk by chunk.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.nn.functional import cross_entropy, embedding_bag, linear

from relexify.pretrained.architecture import IGNORED

__all__ = [
    "CodePrefixes",
    "PrefixPlan",
    "code_prefixes",
    "factored_logits",
    "factored_nats",
    "log_vocabulary_sum",
    "plan_prefixes",
]

MAX_LOGITS = 2**31 - 1
"""Maximum number of logits computed at once: on a GPU, the gradient of `embedding_bag` uses 32-bit indices and silently
overflows."""
MAX_CELLS = 2**26
"""Maximum number of cells of B: products with a larger matrix cost more than the logits of all tokens."""
GRID_ALLOWANCE = 1.5
"""If the possible prefixes are at most this many times as many as the prefixes with tokens, B has a row for every
possible prefix, in order: the larger matrix costs less than gathering scores by prefix."""

REACH = {torch.float32: 75.0, torch.float64: 700.0}
"""Range around zero, in nats, in which exp and sums of its values are finite and have full precision, by dtype."""
LOG_ZERO = -1e30
"""A finite stand-in for log 0."""


def factored_logits(hidden: torch.Tensor, tables: list[torch.Tensor], codes: torch.Tensor) -> torch.Tensor:
    """Return logits without bias [n × N].

    Args:
        hidden: Hidden states [n × d].
        tables: k tables [M_i × d_i].
        codes: The codes of all tokens [N × k].
    """
    if len(hidden) > 1 and len(codes) * len(hidden) > MAX_LOGITS:
        parts = torch.split(hidden, max(1, MAX_LOGITS // len(codes)))
        return torch.cat([factored_logits(part, tables, codes) for part in parts])
    parts = torch.split(hidden, [table.shape[1] for table in tables], dim=-1)
    scores = torch.cat([linear(table, part) for part, table in zip(parts, tables, strict=True)])  # [Σ M_i × n]
    # `embedding_bag` adds k whole rows of scores per token: it accesses memory sequentially, keeps only the sum for the
    # backward pass, and computes the gradient in a fixed order on every device.
    return embedding_bag(_stacked_rows([len(table) for table in tables], codes), scores, mode="sum").t()


def factored_nats(
    hidden: torch.Tensor,
    tables: list[torch.Tensor],
    bias: torch.Tensor | None,
    labels: torch.Tensor,
    codes: torch.Tensor,
    prefixes: CodePrefixes | None,
) -> torch.Tensor:
    """Return the negative log likelihood of the labels, summed over positions.

    Args:
        hidden: Hidden states [n × d].
        tables: k tables [M_i × d_i].
        bias: One number per token [N].
        labels: Tokens to predict, or `IGNORED` [n].
        codes: The codes of all tokens [N × k].
        prefixes: The tokens as cells of a matrix; if None, the loss is computed from logits.
    """
    if prefixes is None:
        logits = factored_logits(hidden, tables, codes)
        if bias is not None:
            logits = logits + bias.to(logits.dtype)
        return cross_entropy(_at_least_float32(logits), labels, ignore_index=IGNORED, reduction="sum")
    parts = torch.split(hidden, [table.shape[1] for table in tables], dim=-1)
    # Under autocast, only the products may be in half precision; the following steps need float32.
    scores = _at_least_float32(torch.cat([linear(part, table) for table, part in zip(tables, parts, strict=True)], 1))
    rows = [len(table) for table in tables]
    is_labelled = labels != IGNORED
    tokens = torch.where(is_labelled, labels, 0)
    columns = _stacked_rows(rows, codes[tokens])
    label_logits = scores.gather(1, columns.long()).sum(1)
    if bias is not None:
        label_logits = label_logits + bias.to(label_logits.dtype)[tokens]
    nats = log_vocabulary_sum(scores, rows, prefixes, bias) - label_logits
    return torch.where(is_labelled, nats, 0.0).sum()


class PrefixPlan(NamedTuple):
    """A choice of how to split codes into prefix and last digit.

    Attributes:
        last: The index of the digit that is not part of the prefix.
        prefixes: Number of prefixes, U.
        complete: Whether these are all possible prefixes in order, including prefixes without tokens.
    """

    last: int
    prefixes: int
    complete: bool


class CodePrefixes(NamedTuple):
    """Tokens as cells of a matrix [U × M], prefix by last digit.

    Attributes:
        plan: How codes are split.
        cells: The cell of every token, u · M + m [N].
        columns: For each digit of the prefixes, the column of that digit in the concatenated scores of their tables
            [(k - 1) × U]; None if prefixes are complete.
        members: 1 where a prefix contains the digit of a column, 0 elsewhere [U × Σ M_i of the tables of prefixes];
            None if prefixes are complete.
    """

    plan: PrefixPlan
    cells: torch.Tensor
    columns: torch.Tensor | None
    members: torch.Tensor | None


def plan_prefixes(codes: np.ndarray, rows: Sequence[int]) -> PrefixPlan | None:
    """Return the split with the fewest prefixes, or None if its matrices would be too large.

    Args:
        codes: The codes of all tokens [N × k].
        rows: Number of rows of each table, M_i.
    """
    plans = []
    for last in reversed(range(len(rows))):
        others = [digit for digit in range(len(rows)) if digit != last]
        used = int(_number_prefixes(codes, rows, others).max(initial=0)) + 1
        possible = math.prod(rows[digit] for digit in others)
        complete = possible <= GRID_ALLOWANCE * used
        plans.append(PrefixPlan(last, possible if complete else used, complete))
    best = min(plans, key=lambda plan: plan.prefixes)
    widest = rows[best.last] if best.complete else sum(rows)
    return best if best.prefixes * widest <= MAX_CELLS else None


def code_prefixes(codes: np.ndarray, rows: Sequence[int], plan: PrefixPlan, device: torch.device) -> CodePrefixes:
    """Return the matrices of a plan.

    Args:
        codes: The codes of all tokens [N × k].
        rows: Number of rows of each table, M_i.
        plan: A result of `plan_prefixes`.
        device: The device for the matrices.
    """
    others = [digit for digit in range(len(rows)) if digit != plan.last]
    if plan.complete:
        # The prefix as a number in a mixed base: `_prefix_scores` builds its grid in the same order.
        number = np.zeros(len(codes), dtype=np.int64)
        for digit in others:
            number = number * rows[digit] + codes[:, digit]
    else:
        number = _number_prefixes(codes, rows, others)
    cells = torch.from_numpy(number * rows[plan.last] + codes[:, plan.last]).to(device)
    if plan.complete:
        return CodePrefixes(plan, cells, None, None)
    starts = np.concatenate([[0], np.cumsum([rows[digit] for digit in others])])
    columns = np.empty((len(others), plan.prefixes), dtype=np.int64)
    columns[:, number] = codes[:, others].T + starts[:-1, None]  # all tokens of a prefix write the same column
    on_device = torch.from_numpy(columns).to(device)
    members = torch.zeros(plan.prefixes, int(starts[-1]), device=device).scatter_(1, on_device.T, 1.0)
    return CodePrefixes(plan, cells, on_device, members)


def log_vocabulary_sum(
    scores: torch.Tensor, rows: list[int], prefixes: CodePrefixes, bias: torch.Tensor | None
) -> torch.Tensor:
    """Return log Σ_n exp(logit_n) at every position [n].

    The result is exact up to rounding if, at each position, the scores of the last digit are within 150 nats of each
    other (1400 in float64); the scores of other digits do not matter. Lower scores are raised to this limit, so the sum
    can be too large, but never too small, and no loss becomes negative or NaN. The biases of tokens with the same
    prefix should be within 80 nats of each other; a token with a lower bias is ignored, like a token with bias -inf.

    Args:
        scores: Scores of all digits, table by table [n × Σ M_i], float32 or float64.
        rows: Number of rows of each table, M_i.
        prefixes: The tokens as cells of a matrix.
        bias: One number per token [N].
    """
    parts = list(torch.split(scores, rows, dim=1))
    last = parts.pop(prefixes.plan.last)
    # B [U × M] with each row divided by its maximum (`odds`), and the logarithms of the maxima [U] (`lift`).
    values = scores.new_zeros(len(prefixes.cells)) if bias is None else bias.to(scores.dtype)
    shape = prefixes.plan.prefixes, last.shape[1]
    grid = scores.new_full((math.prod(shape),), float("-inf")).index_copy(0, prefixes.cells, values).view(shape)
    # A prefix without tokens has -inf everywhere, and -inf - -inf would be NaN.
    lift = grid.detach().amax(1).clamp(min=LOG_ZERO)
    odds = torch.exp(grid - lift[:, None])
    others = torch.cat(parts, dim=1) if parts else scores.new_zeros(len(scores), 0)
    sizes = tuple(part.shape[1] for part in parts)
    total: torch.Tensor = _VocabularySum.apply(  # type: ignore[no-untyped-call]
        others, last, odds, lift, prefixes.columns, prefixes.members, sizes
    )
    return total


class _VocabularySum(torch.autograd.Function):
    """log Σ_u exp(q_u) G_u, with s_m shifted so that its maximum is `REACH`, and log B shifted by `lift`.

    Of the arrays [n × U], only G is kept for the backward pass; the prefix scores q are computed again there.
    """

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
        powers = torch.exp((last - top).clamp(min=-2 * reach) + reach)  # [n × M], from exp(-reach) to exp(reach)
        sums = _product(powers, odds.T)  # G [n × U]
        total = torch.logsumexp(_prefix_scores(others, columns, sizes).add_(lift).add_(sums.log()), 1)
        ctx.save_for_backward(others, powers, odds, lift, sums, total, columns, members)
        ctx.sizes = sizes
        return total + top.squeeze(1) - reach

    @staticmethod
    def backward(ctx: Any, *outputs: torch.Tensor) -> Any:
        others, powers, odds, lift, sums, total, columns, members = ctx.saved_tensors
        # The derivative by G_u is exp(q_u) / Σ; the derivative by q_u is G_u times this.
        slopes = _prefix_scores(others, columns, ctx.sizes).add_(lift).sub_(total[:, None]).exp_()
        slopes = slopes.mul_(outputs[0][:, None])
        to_last = _product(slopes, odds) * powers if ctx.needs_input_grad[1] else None
        # Cells without a token may overflow to inf here, and 0 · inf is NaN; clamped, their product with odds 0 is 0.
        most = torch.finfo(odds.dtype).max
        to_odds = _product(slopes.T, powers).clamp_(-most, most) if ctx.needs_input_grad[2] else None
        to_others = _by_digit(slopes.mul_(sums), members, ctx.sizes) if ctx.needs_input_grad[0] else None
        return to_others, to_last, to_odds, None, None, None, None


def _prefix_scores(others: torch.Tensor, columns: torch.Tensor | None, sizes: tuple[int, ...]) -> torch.Tensor:
    """Return the summed scores of every prefix, q [n × U]."""
    if columns is not None:
        scores = others.index_select(1, columns[0])
        for column in columns[1:]:
            scores += others.index_select(1, column)
        return scores
    # All prefixes in order: an outer sum of the tables.
    parts = torch.split(others, list(sizes), dim=1) if sizes else ()
    scores = parts[0].clone() if parts else others.new_zeros(len(others), 1)
    for part in parts[1:]:
        scores = (scores[:, :, None] + part[:, None, :]).flatten(1)
    return scores


def _by_digit(by_prefix: torch.Tensor, members: torch.Tensor | None, sizes: tuple[int, ...]) -> torch.Tensor:
    """Sum values [n × U] over all prefixes with the same digit [n × Σ M_i]: the adjoint of `_prefix_scores`."""
    if members is not None:
        return _product(by_prefix, members.to(by_prefix.dtype))
    if not sizes:
        return by_prefix.new_zeros(len(by_prefix), 0)
    if len(sizes) == 1:
        return by_prefix
    grid = by_prefix.view(len(by_prefix), *sizes)
    axes = range(1, len(sizes) + 1)
    return torch.cat([grid.sum([axis for axis in axes if axis != kept]) for kept in axes], 1)


def _product(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Multiply matrices in their own precision, even under autocast."""
    with torch.autocast(left.device.type, enabled=False):
        return left @ right


def _stacked_rows(rows: list[int], codes: torch.Tensor) -> torch.Tensor:
    """Return the positions of digits in k tables that are stacked one below the other.

    Args:
        rows: Number of rows of each table, M_i.
        codes: Codes of any tokens [n × k].

    Returns:
        f_i(n) + Σ_{j < i} M_j [n × k].
    """
    starts = accumulate(rows[:-1], initial=0)
    return torch.stack([codes[:, index] + start for index, start in enumerate(starts)], dim=1)


def _at_least_float32(values: torch.Tensor) -> torch.Tensor:
    return values if values.dtype == torch.float64 else values.float()


def _number_prefixes(codes: np.ndarray, rows: Sequence[int], digits: Sequence[int]) -> np.ndarray:
    """Return the prefix of every token as a number from 0 to U - 1 [N].

    Prefixes are renumbered after each digit, so that the numbers remain below N · M and do not overflow.
    """
    number = np.zeros(len(codes), dtype=np.int64)
    for digit in digits:
        number = np.unique(number * rows[digit] + codes[:, digit], return_inverse=True)[1]
    return number
