"""The loss of a head that scores with the tables of a sub-embedding, chunk by chunk like that of a dense head."""

from __future__ import annotations

import functools
from collections.abc import Callable
from itertools import accumulate
from typing import TYPE_CHECKING

import torch
from torch.nn.functional import cross_entropy, linear

from relexify.scoring import IGNORED
from relexify.systems.compression.head import FactoredHead, factored_logits
from relexify.systems.compression.prefixes import CodePrefixes, PrefixPlan, code_prefixes, plan_prefixes
from relexify.systems.compression.vocabulary_sum import log_vocabulary_sum

if TYPE_CHECKING:
    from relexify.training.loss.chunked import ChunkLoss

__all__ = ["chunk_loss", "chunk_positions"]

LOGITS = 2**29
"""Of a chunk, at most: what sums up their gradients on a GPU takes twice their memory beside them."""

PREFIX_SCORES = 2**28
"""Of a chunk, at most; a few times as many numbers are alive at once, in float32."""


def chunk_positions(head: FactoredHead, most: int) -> int:
    """Return how many positions a chunk should have: `most`, or a smaller power of two."""
    plan = _plan(head)
    fitting = max(1, LOGITS // head.out_features if plan is None else PREFIX_SCORES // plan.prefixes)
    return min(most, 1 << (fitting.bit_length() - 1))


def chunk_loss(head: FactoredHead, *, compiled: bool = False) -> ChunkLoss:
    """Return a function for the summed negative log likelihood of some positions, given the head's `loss_weight`.

    Only the scores of table rows are computed and no logits, unless the codes spread so far that it would not pay.

    Args:
        head: The head.
        compiled: Compile it, for chunks of one size.
    """
    plan = _plan(head)
    of_prefixes, of_logits = (
        (_compiled(_prefix_nats), _compiled(_logit_nats)) if compiled else (_prefix_nats, _logit_nats)
    )

    @functools.cache
    def prefixes(device: torch.device, plan: PrefixPlan) -> CodePrefixes:
        # At the first call, since a trainer moves the model only after the loss is made.
        return code_prefixes(head.embedding.codes.numpy(force=True), head.embedding.rows, plan, device)

    def factored_nats(
        hidden: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, labels: torch.Tensor
    ) -> torch.Tensor:
        shapes = [table.shape for table in head.embedding.tables]
        flat = torch.split(weight, [shape.numel() for shape in shapes])
        tables = [part.view(shape) for part, shape in zip(flat, shapes, strict=True)]
        if plan is None:
            return of_logits(hidden, tables, bias, labels, head.embedding.codes)
        return of_prefixes(hidden, tables, bias, labels, head.embedding.codes, prefixes(hidden.device, plan))

    return factored_nats


def _prefix_nats(
    hidden: torch.Tensor,
    tables: list[torch.Tensor],
    bias: torch.Tensor | None,
    labels: torch.Tensor,
    codes: torch.Tensor,
    prefixes: CodePrefixes,
) -> torch.Tensor:
    """The logarithm of the vocabulary's sum, less the logit of the label."""
    parts = torch.split(hidden, [table.shape[1] for table in tables], dim=-1)
    narrow = torch.cat([linear(part, table) for table, part in zip(tables, parts, strict=True)], dim=1)
    scores = _wide(narrow)  # [n × Σ M_i]
    rows = [len(table) for table in tables]
    counts = labels != IGNORED
    tokens = torch.where(counts, labels, 0)
    digits = codes[tokens]
    starts = accumulate(rows[:-1], initial=0)
    columns = torch.stack([digits[:, place] + start for place, start in enumerate(starts)], dim=1)
    logits = scores.gather(1, columns.long()).sum(1)
    if bias is not None:
        logits = logits + bias.to(logits.dtype)[tokens]
    nats = log_vocabulary_sum(scores, rows, prefixes, bias) - logits
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
    return cross_entropy(_wide(logits), labels, ignore_index=IGNORED, reduction="sum")


def _plan(head: FactoredHead) -> PrefixPlan | None:
    return plan_prefixes(head.embedding.codes.numpy(force=True), head.embedding.rows)


def _wide(numbers: torch.Tensor) -> torch.Tensor:
    return numbers if numbers.dtype == torch.float64 else numbers.float()


def _compiled(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    return torch.compile(function, dynamic=False)
