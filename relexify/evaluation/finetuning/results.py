"""What fine-tuning came to: one result a seed, and means and deviations over the seeds."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from relexify.evaluation.metrics import Confusion, LabelRow
from relexify.scoring import Score

__all__ = ["SeedResult", "TaskResult", "summary_of"]


@dataclass(frozen=True)
class SeedResult:
    """What one run came to.

    Attributes:
        seed: Of the new layers, of the order of the data and of dropout.
        scores: On the test data, the most telling one first.
        dev: On the development data, in the epoch that was kept; None without such data.
        epoch: The epoch that was kept, from 1.
        table: How well each label was found; empty where numbers are predicted.
        confusion: What was taken for what; None where numbers are predicted.
    """

    seed: int
    scores: tuple[Score, ...]
    dev: Score | None
    epoch: int
    table: tuple[LabelRow, ...]
    confusion: Confusion | None


@dataclass(frozen=True)
class TaskResult:
    """What a model is worth on a task.

    Attributes:
        scores: Means over the seeds, the most telling one first.
        deviation: The sample standard deviation of each; None for a single seed.
        per_seed: Each run.
        table: How well each label was found, means over the seeds; empty where numbers are predicted.
        confusion: What was taken for what, summed over the seeds; None where numbers are predicted.
    """

    scores: tuple[Score, ...]
    deviation: tuple[float, ...] | None
    per_seed: tuple[SeedResult, ...]
    table: tuple[LabelRow, ...]
    confusion: Confusion | None


def summary_of(results: Sequence[SeedResult]) -> TaskResult:
    """Means and deviations over the seeds."""
    columns = list(zip(*(result.scores for result in results), strict=True))
    scores = tuple(
        Score(same[0].task, same[0].metric, _mean(same), same[0].higher_is_better, same[0].examples) for same in columns
    )
    deviation = tuple(statistics.stdev(score.value for score in same) for same in columns) if len(results) > 1 else None
    return TaskResult(scores, deviation, tuple(results), _mean_table(results), _summed(results))


def _mean(scores: Sequence[Score]) -> float:
    return statistics.fmean(score.value for score in scores)


def _mean_table(results: Sequence[SeedResult]) -> tuple[LabelRow, ...]:
    """A label that a seed neither saw nor said counts nothing there."""
    rows: dict[str, list[LabelRow]] = {}
    for result in results:
        for row in result.table:
            rows.setdefault(row.label, []).append(row)
    return tuple(
        LabelRow(
            label,
            sum(row.precision for row in same) / len(results),
            sum(row.recall for row in same) / len(results),
            sum(row.f1 for row in same) / len(results),
            same[0].examples,
        )
        for label, same in sorted(rows.items())
    )


def _summed(results: Sequence[SeedResult]) -> Confusion | None:
    found = [result.confusion for result in results if result.confusion is not None]
    if not found:
        return None
    counts: Counter[tuple[str, str]] = Counter()
    for each in found:
        for gold, row in zip(each.labels, each.counts, strict=True):
            counts.update({(gold, label): count for label, count in zip(each.labels, row, strict=True)})
    labels = tuple(sorted({label for each in found for label in each.labels}))
    return Confusion(labels, tuple(tuple(counts[one, other] for other in labels) for one in labels))
