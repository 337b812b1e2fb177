"""Means and deviations over seeds, for all tables and curves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

__all__ = ["Statistic"]


@dataclass(frozen=True)
class Statistic:
    """A number measured once for each seed.

    Attributes:
        mean: The mean over the seeds.
        deviation: The sample standard deviation; None for a single seed, NaN if a value is not finite.
        seeds: Number of seeds.
        step: The step of training at which it was measured; the mean of them if every seed has its own.
    """

    mean: float
    deviation: float | None
    seeds: int
    step: int = 0

    @classmethod
    def of(cls, values: Sequence[float], step: int = 0) -> Statistic:
        """Return the statistic of one value for each seed."""
        deviation = None
        if len(values) > 1:
            deviation = stdev(values) if all(map(math.isfinite, values)) else math.nan
        return cls(fmean(values), deviation, len(values), step)

    def text(self, form: str = ".3f") -> str:
        """Return `"0.512"`, or `"0.512 ± 0.021"` for several seeds."""
        mean = format(self.mean, form)
        return mean if self.deviation is None else f"{mean} ± {format(self.deviation, form.lstrip('+'))}"
