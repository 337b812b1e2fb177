"""Curves and comparisons with numbers that can be checked by hand."""

from __future__ import annotations

from relexify.reports import Comparison
from relexify.training.results.curve import Curve, Measurement

TOKENS_A_STEP = 1_000


def curve(scores, perplexities=None):
    """A curve from step -> bits per byte; the perplexity is ten times as much, if not said."""
    perplexities = perplexities or {step: 10 * bits for step, bits in scores.items()}
    return Curve.of(
        Measurement(step, step * TOKENS_A_STEP, "everything", bits, perplexities[step], 3.0 if step else None)
        for step, bits in scores.items()
    )


def compare(title="Swahili", *, notes=None, keeps_best=False, **runs):
    """A comparison from run=[scores of a seed, …] or run=scores."""
    curves = {
        run: tuple(map(curve, seeds)) if isinstance(seeds, list) else (curve(seeds),) for run, seeds in runs.items()
    }
    return Comparison(title, curves, notes or {}, keeps_best=keeps_best)


FAST = {0: 3.0, 10: 2.0, 50: 1.6, 100: 1.2}
SLOW = {0: 4.0, 10: 3.0, 50: 2.0, 100: 1.8}
WORSE = {0: 3.0, 10: 2.0, 50: 1.0, 100: 2.5}
"""At its best in the middle."""
