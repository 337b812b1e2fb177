"""What runs came to on tasks, before training and after it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from statistics import fmean, stdev
from typing import Any

from relexify.errors import InputError
from relexify.scoring import Score

__all__ = ["MOMENTS", "TaskMean", "TaskScores", "mean_scores"]

MOMENTS = {"start": "step 0", "end": "end"}
"""When a run is measured on tasks, and what tables call it."""
_TELLING = ("LAS",)


@dataclass(frozen=True)
class TaskScores:
    """What one model came to on one task.

    Attributes:
        task: What tables call the task.
        moment: One of `MOMENTS`.
        per_seed: The scores of each fine-tuning, the most telling one first, or of a single probe.

    Raises:
        InputError: There are no scores, or there is no such moment.
    """

    task: str
    moment: str
    per_seed: tuple[tuple[Score, ...], ...]

    def __post_init__(self) -> None:
        if self.moment not in MOMENTS:
            raise InputError(f"there is no moment {self.moment!r}: choose one of {', '.join(MOMENTS)}")
        if not self.per_seed or not all(self.per_seed):
            raise InputError(f"the task {self.task!r} has no scores: measure it, or leave it out")

    @property
    def telling(self) -> tuple[Score, ...]:
        """The most telling score of each seed: the first, but of parsers the labelled one."""
        return tuple(
            next((score for score in scores if score.metric in _TELLING), scores[0]) for scores in self.per_seed
        )

    def as_table(self) -> dict[str, Any]:
        """As plain data for json."""
        return asdict(self)

    @classmethod
    def of_table(cls, table: Mapping[str, Any]) -> TaskScores:
        """From what `as_table` gave.

        Raises:
            KeyError: It lacks something.
            TypeError: A score has other fields.
        """
        seeds = tuple(tuple(Score(**score) for score in scores) for scores in table["per_seed"])
        return cls(str(table["task"]), str(table["moment"]), seeds)


@dataclass(frozen=True)
class TaskMean:
    """The most telling score of a run on a task, over all seeds of training and of fine-tuning.

    Attributes:
        score: With the mean as its value.
        deviation: The sample standard deviation; None where it was measured once.
        measured: How often.
    """

    score: Score
    deviation: float | None
    measured: int


def mean_scores(results: Iterable[TaskScores]) -> dict[tuple[str, str], TaskMean]:
    """The means over all results of a run, by task and moment."""
    gathered: dict[tuple[str, str], list[Score]] = {}
    for result in results:
        gathered.setdefault((result.task, result.moment), []).extend(result.telling)
    return {key: _mean(scores) for key, scores in gathered.items()}


def _mean(scores: list[Score]) -> TaskMean:
    values, first = [score.value for score in scores], scores[0]
    mean = Score(first.task, first.metric, fmean(values), first.higher_is_better, first.examples)
    return TaskMean(mean, stdev(values) if len(values) > 1 else None, len(values))
