"""The result of a training for people: held-out scores along the way, and the effort."""

from __future__ import annotations

from relexify.steps import ResultTable
from relexify.training.curve import Curve
from relexify.training.result import TrainingResult

__all__ = ["summarise_training"]

MAX_ROWS = 12
"""Rows of a training curve that are shown."""


def summarise_training(result: TrainingResult) -> list[ResultTable | str]:
    """Return the curve of held-out scores as a table, and the effort as a sentence."""
    speed = f"; {result.tokens_per_second:,.0f} tokens/s without scoring" if result.tokens_per_second else ""
    return [_curve_table(result.curve, result.selected), f"{result.tokens:,} tokens in {result.seconds:,.0f} s{speed}"]


def _curve_table(curve: Curve, selected: int) -> ResultTable:
    """Return about a dozen points, among them the first, the last, the best and the selected one."""
    from relexify.scoring import format_perplexity  # imports torch, which validating a recipe does not need

    points = curve.points
    every = -(-len(points) // MAX_ROWS)
    indices = {0, len(points) - 1, *range(0, len(points), every)}
    languages = list(curve.first.by_language or ())
    scores = [f"{language}: bits per byte" for language in languages] or ["bits per byte", "perplexity"]
    rows = [["step", "tokens", "stage", *scores]]
    for index, point in enumerate(points):
        if index not in indices and point.step not in (selected, curve.best.step):
            continue
        mark = " (selected)" if point.step == selected else ""
        values = [f"{(point.by_language or {})[language]:.4f}" for language in languages]
        values = values or [f"{point.bits_per_byte:.4f}", format_perplexity(point.perplexity)]
        rows.append([f"{point.step:,}{mark}", f"{point.tokens:,}", point.stage, *values])
    return ResultTable("Held-out text (lower is better)", rows)
