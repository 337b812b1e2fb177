"""What follows from a comparison: which run is the best, and whether the training was long enough to tell."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import scipy

from relexify.reports.comparison import Comparison
from relexify.reports.statistics import Statistic
from relexify.training.results.summary import FEWEST_TOKENS

__all__ = ["CLOSE_SCORE_DIFFERENCE", "Conclusion", "conclude", "is_close"]

CLOSE_SCORE_DIFFERENCE = 0.02
"""Bits per byte within which two trainings with one seed are not distinguished: another seed may swap them."""
_CONFIDENCE = 0.95
"""Of the test (Welch's) by which two means over seeds must be apart."""


@dataclass(frozen=True)
class Conclusion:
    """A remark on a comparison.

    Attributes:
        kind: `good` if a run is the best, `open` if this is not clear or needs a remark, `poor` if a run failed.
        headline: The remark in a sentence.
        details: Further sentences: the scores, and what to do.
    """

    kind: Literal["good", "open", "poor"]
    headline: str
    details: tuple[str, ...]

    @property
    def text(self) -> str:
        """All sentences as one text."""
        return " ".join((self.headline, *self.details))


def conclude(comparison: Comparison) -> list[Conclusion]:
    """Return which run is the best, in which other settings the runs differ, and which of them training made worse."""
    starts = {run: comparison.at(run, 0).mean for run in comparison.curves}
    kept = {run: comparison.kept(run) for run in comparison.curves}
    ranked = sorted((run for run in kept if math.isfinite(kept[run].mean)), key=lambda run: kept[run].mean)
    found = []
    if len(ranked) > 1:
        found.append(_conclude_best(comparison, ranked[0], ranked[1]))
        found += _conclude_differences(comparison)
    for run, score in kept.items():
        if not math.isfinite(score.mean):
            found.append(
                Conclusion("poor", f"{run} diverged.", ("Its score is not a number: try a lower learning rate.",))
            )
        elif round(score.mean - starts[run], 3) > 0:  # as they are shown
            scores = (
                f"It starts with {starts[run]:.3f} bits per byte and ends with {score.mean:.3f}: try a lower learning "
                "rate, or fewer steps."
            )
            found.append(Conclusion("poor", f"{run} got worse in training.", (scores,)))
    return found


def is_close(difference: float) -> bool:
    """Whether a difference of bits per byte, as it is shown, is too small for one seed."""
    return round(abs(difference), 3) <= CLOSE_SCORE_DIFFERENCE


def _conclude_best(comparison: Comparison, best: str, second: str) -> Conclusion:
    """Say which run is the best, unless it has seen too little text, or the next one is too close."""
    first, next_best = comparison.kept(best), comparison.kept(second)
    scores = f"Its score is {first.mean:.3f} bits per byte; the next, {second}, has {next_best.mean:.3f}."
    tokens = min(comparison.mean_curve(run).last.tokens for run in (best, second))
    if tokens < FEWEST_TOKENS:
        return Conclusion(
            "open",
            f"{best} has the lowest score so far, but this is too little training to conclude anything.",
            (scores, f"They have seen {tokens:,} tokens; train them on {FEWEST_TOKENS:,} at least."),
        )
    if _may_be_chance(first, next_best):
        seeds = "more seeds" if min(first.seeds, next_best.seeds) > 1 else "several seeds"
        return Conclusion(
            "open",
            f"{best} has the lowest score, but the difference may be chance.",
            (scores, f"Compare {seeds} (in a recipe, compare.seeds sets them)."),
        )
    is_one_seed = min(first.seeds, next_best.seeds) == 1
    one_seed = ("With one seed, a small difference may be chance.",) if is_one_seed else ()
    return Conclusion("good", f"{best} is the best.", (scores, *one_seed))


def _may_be_chance(first: Statistic, second: Statistic) -> bool:
    """Whether two scores are closer than seeds differ, as far as there are several."""
    difference = second.mean - first.mean
    if first.deviation is None or second.deviation is None:
        return is_close(difference)
    # Two or three seeds may agree by chance, so scores that are shown alike count as equal.
    if round(difference, 3) == 0:
        return True
    own, other = first.deviation**2 / first.seeds, second.deviation**2 / second.seeds
    if own + other == 0:
        return False
    # The degrees of freedom of Welch and Satterthwaite: few seeds need a larger difference.
    freedom = (own + other) ** 2 / (own**2 / (first.seeds - 1) + other**2 / (second.seeds - 1))
    return difference <= float(scipy.special.stdtrit(freedom, (1 + _CONFIDENCE) / 2)) * math.sqrt(own + other)


def _conclude_differences(comparison: Comparison) -> list[Conclusion]:
    """Say which settings differ between runs because their methods decide them."""
    found = []
    for key in comparison.different_settings():
        name = key.rpartition(".")[2].replace("_", " ")
        have = [run for run, settings in comparison.settings.items() if settings.get(key)]
        lack = [run for run in comparison.settings if run not in have]
        found.append(
            Conclusion(
                "open",
                f"Not all runs have the {name}.",
                (
                    f"{', '.join(have)} {'has' if len(have) == 1 else 'have'} it, {', '.join(lack)} "
                    f"{'does' if len(lack) == 1 else 'do'} not, because their methods are defined like this.",
                    "A part of the difference is due to it, above all before training.",
                    f"With {key}=true (--set), all runs have it; choose another output for them.",
                ),
            )
        )
    return found
