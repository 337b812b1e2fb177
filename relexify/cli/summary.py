"""Results of a run as tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape

from relexify.cli.console import results, table

if TYPE_CHECKING:
    from relexify.evidence.alignment import Rotation
    from relexify.scoring import Score
    from relexify.systems.transfer.run import TransferResult
    from relexify.training.curve import Curve
    from relexify.training.result import TrainingResult

__all__ = ["print_alignment", "print_measured", "print_model_folder", "print_rows", "print_training", "print_transfer"]

MAX_ROWS = 12
"""Rows of a training curve that are printed."""
NOISE = 0.005
"""Precision at 1 below which aligned vectors are useless."""

_ORIGINS = {
    "special": "special tokens, copied by role",
    "copied": "copied",
    "mixed": "mixed from evidence",
    "pieces": "mean of source pieces",
    "random": "random (no evidence)",
    "ready": "mapped into the embedding space",
}


def print_transfer(result: TransferResult) -> None:
    """Print where the embeddings come from, the quality of the alignment, and the scores before training."""
    _print_origins(result.graft.report.origins)
    print_alignment(result.rotation)
    if result.scores:
        shown = table("Before training (lower is better)", "initialisation", "bits per byte")
        for name, value in result.scores.items():
            shown.add_row(name, f"{value:.3f}")
        results.print(shown)


def print_alignment(rotation: Rotation | None) -> None:
    """Print how well the vectors of two languages were aligned."""
    if rotation is None:
        return
    shown = table("Alignment of the word vectors", "measure", "value")
    shown.add_row("word pairs used", f"{rotation.pairs_used:,} ({rotation.coverage:.1%})")
    if quality := rotation.quality:
        shown.add_row("held-out words", f"{quality.words:,}")
        shown.add_row("precision at 1", f"{quality.precision:.1%}")
        shown.add_row("precision at 1 with CSLS", f"{quality.csls_precision:.1%}")
    results.print(shown)
    if quality and max(quality.precision, quality.csls_precision) < NOISE:
        results.print(
            "The aligned vectors find almost no translations, so mixtures based on them are mostly noise: use more "
            "text in both languages, on similar topics, or other vectors (--source-vectors, --target-vectors)."
        )


def print_training(result: TrainingResult) -> None:
    """Print the scores on held-out text during training, and the effort."""
    _print_curve(result.curve, result.selected)
    speed = f", {result.tokens_per_second:,.0f} tokens/s" if result.tokens_per_second else ""
    results.print(f"{result.tokens:,} tokens in {result.seconds:,.0f} s{speed}", highlight=False)


def print_measured(scores: Iterable[Score]) -> None:
    """Print scores, one per line."""
    shown = table("Scores", "task", "metric", "value", "examples")
    for score in scores:
        arrow = "↑" if score.higher_is_better else "↓"
        shown.add_row(score.task, f"{score.metric} {arrow}", f"{score.value:.3f}", f"{score.examples:,}")
    results.print(shown)


def print_rows(title: str, rows: Sequence[Sequence[str]]) -> None:
    """Print rows of text as a table, the header first; cells between two `**` are bold."""
    header, *body = rows
    shown = table(title, *header)
    for row in body:
        shown.add_row(*map(_cell, row))
    results.print(shown)


def print_model_folder(output: Path) -> None:
    """Print where the model is."""
    results.print(f"\nThe model is in [bold]{escape(str(output))}[/]", soft_wrap=True)


def _cell(text: str) -> str:
    if text.startswith("**"):
        return f"[bold]{escape(text.strip('*'))}[/]"
    return escape(text)


def _print_origins(origins: dict[str, int]) -> None:
    total = max(1, sum(origins.values()))
    shown = table("Origin of the target embeddings", "tokens", "count", "share")
    for origin, name in _ORIGINS.items():
        if origin != "ready" or origin in origins:
            count = origins.get(origin, 0)
            shown.add_row(name, f"{count:,}", f"{count / total:.1%}")
    results.print(shown)
    if origins.get("random", 0) > total / 2 and set(origins) - {"random", "special"}:
        results.print(
            "There is no evidence for most tokens: give more evidence, or use --method blend, which combines all types."
        )


def _print_curve(curve: Curve, selected: int) -> None:
    """Print about a dozen points, among them the first, the last, the best and the selected one."""
    points = curve.points
    every = -(-len(points) // MAX_ROWS)
    indices = {0, len(points) - 1, *range(0, len(points), every)}
    languages = list(curve.first.by_language or ())
    scores = [f"{language}: bits per byte" for language in languages] or ["bits per byte", "perplexity"]
    shown = table("Held-out text (lower is better)", "step", "tokens", "stage", *scores)
    for index, point in enumerate(points):
        if index not in indices and point.step not in (selected, curve.best.step):
            continue
        mark = " (selected)" if point.step == selected else ""
        values = [f"{(point.by_language or {})[language]:.4f}" for language in languages]
        values = values or [f"{point.bits_per_byte:.4f}", f"{point.perplexity:,.2f}"]
        shown.add_row(f"{point.step:,}{mark}", f"{point.tokens:,}", point.stage, *values)
    results.print(shown)
