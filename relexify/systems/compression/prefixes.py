"""Tokens by all digits of their codes but one: the tokens that share those are a row of a small matrix.

A sum over the vocabulary, such as the loss wants it, is then a product with that matrix, and the numbers that a place
needs are as many as there are such prefixes, of which N tokens have M^(k-1) at most.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

__all__ = ["CodePrefixes", "PrefixPlan", "code_prefixes", "plan_prefixes"]

MOST_CELLS = 2**26
"""Of the matrices: beyond, products with them cost more than adding up the scores of every token."""

ROOM = 1.5
"""All prefixes may be so many times more than those that tokens have: what their grid costs, it saves in gathers."""


class PrefixPlan(NamedTuple):
    """How tokens are cut into prefix and last digit.

    Attributes:
        last: The digit that is no part of the prefix.
        prefixes: How many there are, U.
        complete: They are all that the other digits can write, in order, whether tokens have them or not.
    """

    last: int
    prefixes: int
    complete: bool


class CodePrefixes(NamedTuple):
    """Tokens as cells of a matrix [U × M], prefix by last digit.

    Attributes:
        plan: How they are cut.
        cells: The cell of every token, u · M + m [N].
        columns: For every other digit the column of a prefix among the scores of their tables [(k - 1) × U]; None
            where prefixes are complete.
        members: One where a prefix has a column and zero elsewhere [U × Σ M_i of the others]; None likewise.
    """

    plan: PrefixPlan
    cells: torch.Tensor
    columns: torch.Tensor | None
    members: torch.Tensor | None


def plan_prefixes(codes: np.ndarray, rows: Sequence[int]) -> PrefixPlan | None:
    """The cut with the fewest prefixes, or None where the matrices would be too large.

    Args:
        codes: [N × k].
        rows: M_i of every table.
    """
    plans = [_plan(codes, rows, last) for last in reversed(range(len(rows)))]
    best = min(plans, key=lambda plan: plan.prefixes)
    widest = rows[best.last] if best.complete else sum(rows)
    return best if best.prefixes * widest <= MOST_CELLS else None


def code_prefixes(codes: np.ndarray, rows: Sequence[int], plan: PrefixPlan, device: torch.device) -> CodePrefixes:
    """The matrices of a plan.

    Args:
        codes: [N × k].
        rows: M_i of every table.
        plan: Of `plan_prefixes`.
        device: Where they are wanted.
    """
    others = [digit for digit in range(len(rows)) if digit != plan.last]
    if plan.complete:
        number = np.zeros(len(codes), dtype=np.int64)
        for digit in others:
            number = number * rows[digit] + codes[:, digit]
    else:
        number = _numbers(codes, rows, others)
    cells = torch.from_numpy(number * rows[plan.last] + codes[:, plan.last]).to(device)
    if plan.complete:
        return CodePrefixes(plan, cells, None, None)
    starts = np.concatenate([[0], np.cumsum([rows[digit] for digit in others])])
    columns = np.empty((len(others), plan.prefixes), dtype=np.int64)
    columns[:, number] = codes[:, others].T + starts[:-1, None]
    members = torch.zeros(plan.prefixes, int(starts[-1]), device=device)
    placed = torch.from_numpy(columns).to(device)
    return CodePrefixes(plan, cells, placed, members.scatter_(1, placed.T, 1.0))


def _plan(codes: np.ndarray, rows: Sequence[int], last: int) -> PrefixPlan:
    others = [digit for digit in range(len(rows)) if digit != last]
    had = int(_numbers(codes, rows, others).max(initial=0)) + 1
    possible = math.prod(rows[digit] for digit in others)
    complete = possible <= ROOM * had
    return PrefixPlan(last, possible if complete else had, complete)


def _numbers(codes: np.ndarray, rows: Sequence[int], digits: Sequence[int]) -> np.ndarray:
    """The prefix of every token as a number from 0 to U - 1 [N]; numbered anew at each digit, lest they overflow."""
    number = np.zeros(len(codes), dtype=np.int64)
    for digit in digits:
        number = np.unique(number * rows[digit] + codes[:, digit], return_inverse=True)[1]
    return number
