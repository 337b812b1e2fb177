"""What came out of a run, as tables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from relexify.cli.console import results, table

if TYPE_CHECKING:
    from relexify.evidence.alignment import Rotation
    from relexify.scoring import Score
    from relexify.training.curve import Curve
    from relexify.training.result import TrainingResult

__all__ = ["print_alignment", "print_curve", "print_effort", "print_measured", "print_scores", "print_tokens"]


def print_tokens(origins: dict[str, int]) -> None:
    """Tell where the rows of the new embedding come from."""
    total = max(1, sum(origins.values()))
    shown = table("Where the new embeddings come from", "tokens", "count", "share")
    names = {
        "special": "special, copied by role",
        "copied": "copied",
        "mixed": "mixed from evidence",
        "pieces": "mean of old pieces",
        "random": "fallback: random",
        **({"ready": "moved into the embedding space"} if "ready" in origins else {}),
    }
    for origin, name in names.items():
        shown.add_row(name, f"{origins.get(origin, 0):,}", f"{origins.get(origin, 0) / total:.1%}")
    results.print(shown)
    if origins.get("random", 0) > total / 2 and set(origins) - {"random", "special"}:
        results.print(
            "Nothing is known of most tokens: more evidence would help, or --method blend, which uses all there is."
        )


def print_alignment(rotation: Rotation | None) -> None:
    """Tell how well two languages' vectors were brought together."""
    if rotation is None:
        return
    shown = table("Alignment of the word vectors", "measure", "value")
    shown.add_row("pairs of words used", f"{rotation.pairs_used:,} ({rotation.coverage:.1%})")
    if quality := rotation.quality:
        shown.add_row("held-out words", f"{quality.words:,}")
        shown.add_row("precision at 1", f"{quality.precision:.1%}")
        shown.add_row("precision at 1 with CSLS", f"{quality.csls_precision:.1%}")
    results.print(shown)
    if quality and max(quality.precision, quality.csls_precision) < 0.005:
        results.print(
            "The vectors find next to no translations, and what is mixed by them is mostly noise: give more text on "
            "both sides, about like things, or vectors made elsewhere (--source-vectors, --target-vectors)."
        )


def print_scores(scores: dict[str, float]) -> None:
    """Tell how well a model does before it is trained, beside the baselines."""
    if not scores:
        return
    shown = table("Before training (lower is better)", "initialisation", "bits per byte")
    for name, value in scores.items():
        shown.add_row(name, f"{value:.3f}")
    results.print(shown)


def print_measured(scores: Iterable[Score]) -> None:
    """Tell what was measured, a line a number."""
    shown = table("Measured", "task", "measure", "value", "of")
    for score in scores:
        arrow = "↑" if score.higher_is_better else "↓"
        shown.add_row(score.task, f"{score.metric} {arrow}", f"{score.value:.3f}", f"{score.examples:,}")
    results.print(shown)


SHOWN = 12


def print_curve(curve: Curve, selected: int) -> None:
    """Tell how the held-out scores went, a dozen of them at most."""
    points = curve.points
    every = -(-len(points) // SHOWN)
    wanted = {0, len(points) - 1, *range(0, len(points), every)}
    chosen = [
        point for place, point in enumerate(points) if place in wanted or point.step in (selected, curve.best.step)
    ]
    languages = list(curve.first.by_language or ())
    scores = [f"{language}: bits per byte" for language in languages] or ["bits per byte", "perplexity"]
    shown = table("Held-out text (lower is better)", "step", "tokens", "stage", *scores)
    for point in chosen:
        mark = " (kept)" if point.step == selected else ""
        values = [f"{(point.by_language or {})[language]:.4f}" for language in languages]
        values = values or [f"{point.bits_per_byte:.4f}", f"{point.perplexity:,.2f}"]
        shown.add_row(f"{point.step:,}{mark}", f"{point.tokens:,}", point.stage, *values)
    results.print(shown)


def print_effort(result: TrainingResult) -> None:
    """Tell what the training took."""
    speed = f", {result.tokens_per_second:,.0f} tokens a second" if result.tokens_per_second else ""
    results.print(f"{result.tokens:,} tokens seen in {result.seconds:,.0f} s{speed}", highlight=False)
