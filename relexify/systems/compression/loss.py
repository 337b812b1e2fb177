"""The training loss of a factored head, without logits.

The cross-entropy of a label y is log Σ_n exp(logit_n) - logit_y. The label's logit is a sum of k scores; only the sum
over the vocabulary is expensive. A token's logit is the sum of the scores of its k digits, and a bias. Take one digit
away (the *last*, whichever digit that is) and call the others the token's *prefix*: with tokens as cells (u, m) of a
matrix, prefix by last digit, q_u the summed scores of the prefix and s_m the score of the last digit,

    log Σ_n exp(logit_n) = log Σ_u exp(q_u) G_u,    G_u = Σ_m B_um exp(s_m),

where B [U × M] has exp(bias) in the cells of tokens and zero elsewhere. So a position needs one product with B and U
numbers instead of N, where U is at most M^(k-1); and its gradients are products and sums too, without atomic additions
to one address.

If codes are so scattered that B would be too large, the loss is computed from logits, chunk by chunk.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch.nn.functional import cross_entropy, linear

from relexify.pretrained.architecture import IGNORED
from relexify.systems.compression.embedding import FactoredHead, factored_logits, stacked_rows

if TYPE_CHECKING:
    from relexify.training.loss.chunked import ChunkLoss

__all__ = [
    "CodePrefixes",
    "PrefixPlan",
    "chunk_loss",
    "chunk_positions",
    "code_prefixes",
    "log_vocabulary_sum",
    "plan_prefixes",
]

CHUNK_LOGITS = 2**29
"""Most logits of a chunk: on a GPU, summing their gradients takes twice their memory in addition."""
CHUNK_PREFIX_SCORES = 2**28
"""Most prefix scores of a chunk; a few times as many numbers are alive at once, in float32."""

MAX_CELLS = 2**26
"""The largest matrix B: with a larger one, products cost more than the logits of all tokens."""
GRID_ALLOWANCE = 1.5
"""All possible prefixes are used, in order, if they are at most this many times those that tokens have: the larger
matrix costs less than gathering scores by prefix."""

REACH = {torch.float32: 75.0, torch.float64: 700.0}
"""Nats on both sides of zero in which exp, and a sum of such numbers, is finite and has full precision."""
LOG_ZERO = -1e30
"""A finite stand-in for log 0."""


def chunk_positions(head: FactoredHead, most: int) -> int:
    """Return how many positions a chunk should have: `most`, or a smaller power of two."""
    plan = _plan(head)
    if plan is None:
        fitting = max(1, CHUNK_LOGITS // head.out_features)
    else:
        fitting = max(1, CHUNK_PREFIX_SCORES // plan.prefixes)
    return min(most, 1 << (fitting.bit_length() - 1))


def chunk_loss(head: FactoredHead, *, compiled: bool = False) -> ChunkLoss:
    """Return a function for the summed negative log likelihood of some positions, given the head's `loss_weight`.

    Args:
        head: The head.
        compiled: Compile it, for chunks of one size.
    """
    plan = _plan(head)
    by_prefixes = _compile(_prefix_nats) if compiled else _prefix_nats
    by_logits = _compile(_logit_nats) if compiled else _logit_nats

    @functools.cache
    def prefixes_on(device: torch.device, plan: PrefixPlan) -> CodePrefixes:
        # Built at the first call, since a trainer moves the model to its device after this function has returned.
        return code_prefixes(head.embedding.codes.numpy(force=True), head.embedding.rows, plan, device)

    def factored_nats(
        hidden: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, labels: torch.Tensor
    ) -> torch.Tensor:
        shapes = [table.shape for table in head.embedding.tables]
        flat = torch.split(weight, [shape.numel() for shape in shapes])
        tables = [part.view(shape) for part, shape in zip(flat, shapes, strict=True)]
        if plan is None:
            return by_logits(hidden, tables, bias, labels, head.embedding.codes)
        return by_prefixes(hidden, tables, bias, labels, head.embedding.codes, prefixes_on(hidden.device, plan))

    return factored_nats


def _compile(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    return torch.compile(function, dynamic=False)


def _plan(head: FactoredHead) -> PrefixPlan | None:
    return plan_prefixes(head.embedding.codes.numpy(force=True), head.embedding.rows)


def _prefix_nats(
    hidden: torch.Tensor,
    tables: list[torch.Tensor],
    bias: torch.Tensor | None,
    labels: torch.Tensor,
    codes: torch.Tensor,
    prefixes: CodePrefixes,
) -> torch.Tensor:
    """Return the logarithm of the vocabulary's sum less the logit of the label, summed over positions."""
    parts = torch.split(hidden, [table.shape[1] for table in tables], dim=-1)
    # The products may be in half precision under autocast; everything after them is not.
    scores = _at_least_float32(torch.cat([linear(part, table) for table, part in zip(tables, parts, strict=True)], 1))
    rows = [len(table) for table in tables]
    counts = labels != IGNORED
    tokens = torch.where(counts, labels, 0)
    columns = stacked_rows(rows, codes[tokens])
    label_logits = scores.gather(1, columns.long()).sum(1)
    if bias is not None:
        label_logits = label_logits + bias.to(label_logits.dtype)[tokens]
    nats = log_vocabulary_sum(scores, rows, prefixes, bias) - label_logits
    return torch.where(counts, nats, 0.0).sum()


def _logit_nats(
    hidden: torch.Tensor,
    tables: list[torch.Tensor],
    bias: torch.Tensor | None,
    labels: torch.Tensor,
    codes: torch.Tensor,
) -> torch.Tensor:
    logits = factored_logits(hidden, tables, codes)
    if bias is not None:
        logits = logits + bias.to(logits.dtype)
    return cross_entropy(_at_least_float32(logits), labels, ignore_index=IGNORED, reduction="sum")


def _at_least_float32(values: torch.Tensor) -> torch.Tensor:
    return values if values.dtype == torch.float64 else values.float()


class PrefixPlan(NamedTuple):
    """How codes are split into prefix and last digit.

    Attributes:
        last: The index of the digit that is not part of the prefix.
        prefixes: Number of prefixes, U.
        complete: Whether they are all that the other digits can form, in order, with or without tokens.
    """

    last: int
    prefixes: int
    complete: bool


class CodePrefixes(NamedTuple):
    """Tokens as cells of a matrix [U × M], prefix by last digit.

    Attributes:
        plan: How codes are split.
        cells: The cell of every token, u · M + m [N].
        columns: For every other digit, the column of each prefix among the scores of the other tables [(k - 1) × U];
            None if prefixes are complete.
        members: One where a prefix has a column, zero elsewhere [U × Σ M_i of the other tables]; None if complete.
    """

    plan: PrefixPlan
    cells: torch.Tensor
    columns: torch.Tensor | None
    members: torch.Tensor | None


def plan_prefixes(codes: np.ndarray, rows: Sequence[int]) -> PrefixPlan | None:
    """Return the split with the fewest prefixes, or None if its matrices would be too large.

    Args:
        codes: [N × k].
        rows: Rows of each table, M_i.
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
        codes: [N × k].
        rows: Rows of each table, M_i.
        plan: A result of `plan_prefixes`.
        device: Where they are needed.
    """
    others = [digit for digit in range(len(rows)) if digit != plan.last]
    if plan.complete:
        # The prefix as a number in mixed base: the order in which `_prefix_scores` builds the grid.
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


def _number_prefixes(codes: np.ndarray, rows: Sequence[int], digits: Sequence[int]) -> np.ndarray:
    """Return the prefix of every token as a number from 0 to U - 1 [N].

    Prefixes are renumbered after each digit, so that the numbers stay below N · M and do not overflow.
    """
    number = np.zeros(len(codes), dtype=np.int64)
    for digit in digits:
        number = np.unique(number * rows[digit] + codes[:, digit], return_inverse=True)[1]
    return number


def log_vocabulary_sum(
    scores: torch.Tensor, rows: list[int], prefixes: CodePrefixes, bias: torch.Tensor | None
) -> torch.Tensor:
    """Return log Σ_n exp(logit_n) at every position [n].

    It is exact up to rounding as long as the scores of the last digit at a position are within 150 nats of each other
    (1400 in float64), whatever the others are. A lower score counts as if it were at that limit: the sum is then too
    large and never too small, so that no loss becomes negative or NaN. Biases of one prefix should be within 80 nats;
    a token that is lower than that is left out, like one with a bias of -inf.

    Args:
        scores: Scores of all digits, table by table [n × Σ M_i], float32 or float64.
        rows: Rows of each table, M_i.
        prefixes: The tokens.
        bias: One number per token [N].
    """
    parts = list(torch.split(scores, rows, dim=1))
    last = parts.pop(prefixes.plan.last)
    odds, lift = _odds(prefixes, last.shape[1], bias, scores)
    others = torch.cat(parts, dim=1) if parts else scores.new_zeros(len(scores), 0)
    sizes = tuple(part.shape[1] for part in parts)
    total: torch.Tensor = _VocabularySum.apply(  # type: ignore[no-untyped-call]
        others, last, odds, lift, prefixes.columns, prefixes.members, sizes
    )
    return total


def _odds(
    prefixes: CodePrefixes, rows: int, bias: torch.Tensor | None, like: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return B [U × M] with each row divided by its largest number, and the logarithms of the latter [U]."""
    values = like.new_zeros(len(prefixes.cells)) if bias is None else bias.to(like.dtype)
    empty = like.new_full((prefixes.plan.prefixes * rows,), float("-inf"))
    grid = empty.index_copy(0, prefixes.cells, values).view(prefixes.plan.prefixes, rows)
    # A prefix without tokens has -inf everywhere, and -inf - -inf would be NaN.
    lift = grid.detach().amax(1).clamp(min=LOG_ZERO)
    return torch.exp(grid - lift[:, None]), lift


class _VocabularySum(torch.autograd.Function):
    """log Σ_u exp(q_u) G_u, with s_m shifted so that its maximum is `REACH`, and log B by `lift`.

    Only one array of [n × U] numbers (G) is kept for the backward pass: the prefix scores q are added up again there.
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
        # The derivative by G_u is exp(q_u) / Σ; that by q_u is the same times G_u.
        slopes = _prefix_scores(others, columns, ctx.sizes).add_(lift).sub_(total[:, None]).exp_()
        slopes = slopes.mul_(outputs[0][:, None])
        to_last = _product(slopes, odds) * powers if ctx.needs_input_grad[1] else None
        # Cells without a token may overflow to inf here, and 0 · inf is NaN; clamped, they vanish with their odds.
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
    """Sum values of prefixes [n × U] over the prefixes that have a digit [n × Σ M_i], the adjoint of the above."""
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
    """Multiply in the precision of the factors, even under autocast."""
    with torch.autocast(left.device.type, enabled=False):
        return left @ right
