"""One measured number."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Score"]


@dataclass(frozen=True)
class Score:
    """One measured number.

    Attributes:
        task: What was done, such as `"language modelling"`.
        metric: What was counted, such as `"bits per byte"`.
        value: The number.
        higher_is_better: Which way is up.
        examples: How many units (bytes, sentences, …) it was measured on.
    """

    task: str
    metric: str
    value: float
    higher_is_better: bool
    examples: int
