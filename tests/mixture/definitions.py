"""Definitions of weights, as loops."""

from __future__ import annotations

from collections.abc import Sequence


def sparsemax(scores: Sequence[float]) -> list[float]:
    """The largest support in which the smallest score is still above the threshold."""
    ordered = sorted(scores, reverse=True)
    for size in range(len(ordered), 0, -1):
        threshold = (sum(ordered[:size]) - 1) / size
        if ordered[size - 1] > threshold:
            return [max(score - threshold, 0) for score in scores]
    raise AssertionError
