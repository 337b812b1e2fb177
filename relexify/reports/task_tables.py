"""Scores of tasks as rows of text, for the terminal and for Markdown; the header comes first."""

from __future__ import annotations

from collections.abc import Sequence

from relexify.reports.comparison import Comparison
from relexify.reports.task_scores import MOMENTS, TaskMean, TaskScores, mean_scores

__all__ = ["task_result_rows", "task_rows"]

_NOTHING = "–"


def task_rows(comparison: Comparison) -> list[list[str]]:
    """Every run's score on every task, before training and after it; the best of a column between two `**`.

    The arrow of a column points to where scores are better.
    """
    means = {run: mean_scores(comparison.tasks.get(run, ())) for run in comparison.curves}
    tasks = dict.fromkeys(task for found in means.values() for task, _ in found)
    columns = [
        _column(task, moment, [found.get((task, moment)) for found in means.values()])
        for task in tasks
        for moment in MOMENTS
        if any((task, moment) in found for found in means.values())
    ]
    return [list(row) for row in zip(["initialisation", *means], *columns, strict=True)]


def task_result_rows(results: Sequence[TaskScores]) -> list[list[str]]:
    """The mean of every score of a single model, a row for each."""
    rows = [["task", "measure", "value", "measured on"]]
    for result in results:
        for place in range(len(result.per_seed[0])):
            alone = TaskScores(result.task, result.moment, tuple((scores[place],) for scores in result.per_seed))
            ((_, mean),) = mean_scores([alone]).items()
            rows.append([result.task, _measure(mean), _text(mean), f"{mean.score.examples:,}"])
    return rows


def _column(task: str, moment: str, means: Sequence[TaskMean | None]) -> list[str]:
    known = [mean for mean in means if mean is not None]
    texts = [_NOTHING if mean is None else _text(mean) for mean in means]
    if len(means) > 1:
        best = _best(known)
        texts = [
            f"**{text}**" if mean is not None and f"{mean.score.value:.3f}" == best else text
            for mean, text in zip(means, texts, strict=True)
        ]
    return [f"{task}: {_measure(known[0])}, {MOMENTS[moment]}", *texts]


def _best(means: Sequence[TaskMean]) -> str:
    """The best mean as it is shown, so that what looks the same is treated the same."""
    sign = 1 if means[0].score.higher_is_better else -1
    return f"{max((mean.score.value for mean in means), key=lambda value: sign * value):.3f}"


def _measure(mean: TaskMean) -> str:
    return f"{mean.score.metric} {'↑' if mean.score.higher_is_better else '↓'}"


def _text(mean: TaskMean) -> str:
    return f"{mean.score.value:.3f}" if mean.deviation is None else f"{mean.score.value:.3f} ± {mean.deviation:.3f}"
