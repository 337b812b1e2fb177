"""One measured number, and its format. This file does not import torch, so that reports can read scores without it."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["FEWEST_BYTES", "RELIABLE_BYTES", "WINDOW", "Score", "format_perplexity", "format_score"]

WINDOW = 512
"""Default number of tokens that a model reads at once."""
FEWEST_BYTES = 500
"""On fewer bytes of text (some 75 words), a score is noise. A choice, not measured."""
RELIABLE_BYTES = 1_000
"""On fewer bytes of text (some 150 words), a score is reported as unreliable. A choice, not measured."""


@dataclass(frozen=True)
class Score:
    """One measured number.

    Attributes:
        task: The task, such as `"language modelling"`.
        metric: The metric, such as `"bits per byte"`.
        value: The number.
        higher_is_better: Whether a higher value is better.
        examples: Number of bytes, words, entities, … that it was measured on.
        unit: What `examples` counts: bytes, words, entities, ….
    """

    task: str
    metric: str
    value: float
    higher_is_better: bool
    examples: int
    unit: str = "examples"

    @property
    def measured_on(self) -> str:
        """The amount that it was measured on: `"4,330 entities"`."""
        return f"{self.examples:,} {self.unit}"


def format_score(score: Score) -> str:
    """Return the value of a score as text; a perplexity is rounded to its significant digits."""
    if score.metric.endswith("perplexity"):
        return format_perplexity(score.value)
    return f"{score.value:.4f}"


def format_perplexity(value: float) -> str:
    """Return a perplexity as text, rounded to its significant digits."""
    if not math.isfinite(value) or value >= 1e6:
        return f"{value:.1e}"
    return f"{value:.1f}" if value < 1000 else f"{value:,.0f}"
