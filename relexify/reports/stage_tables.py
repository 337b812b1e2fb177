"""Bilingual models by stage, as rows of text for the terminal and for Markdown; the header comes first."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, stdev

from relexify.reports.comparison import Comparison
from relexify.training.curve import Curve

__all__ = ["stage_rows"]


def stage_rows(comparison: Comparison) -> list[list[str]]:
    """Bits per byte of both languages after each stage, and how far the first language is from where it began.

    The first language is as the model knew it until both are trained together: the encoder was frozen before, and its
    embeddings are its own.

    Args:
        comparison: Of bilingual models, each with a curve of its own for the new language alone.
    """
    source, new = _languages(comparison)
    header = ["initialisation", f"{new}, initialised", f"{new}, embeddings trained", f"{new}, end"]
    rows = [[*header, f"{source}, start", f"{source}, end", f"{source}, change"]]
    for run, earlier in comparison.earlier.items():
        curves = comparison.curves[run]
        ends = [_handed_on(curve, comparison.keeps_best) for curve in curves]
        starts = [_by_language(curve)[source] for curve in curves]
        changes = [100 * (end[source] / start - 1) for end, start in zip(ends, starts, strict=True)]
        cells = [
            [curve.first.bits_per_byte for curve in earlier],
            [_by_language(curve)[new] for curve in curves],
            [end[new] for end in ends],
            starts,
            [end[source] for end in ends],
        ]
        rows.append([run, *(_text(values, ".3f") for values in cells), f"{_text(changes, '+.1f')} %"])
    return rows


def _languages(comparison: Comparison) -> tuple[str, str]:
    source, new = _by_language(next(iter(comparison.curves.values()))[0])
    return source, new


def _by_language(curve: Curve) -> dict[str, float]:
    """Where both languages began to be trained together."""
    return dict(curve.first.by_language or {})


def _handed_on(curve: Curve, best: bool) -> dict[str, float]:
    return dict((curve.best if best else curve.last).by_language or {})


def _text(values: Sequence[float], form: str) -> str:
    mean = format(fmean(values), form)
    return mean if len(values) == 1 else f"{mean} ± {format(stdev(values), form.lstrip('+'))}"
