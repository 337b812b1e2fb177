"""The scores of runs on tasks, before, during and after training."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from relexify.errors import InputError
from relexify.reports.statistics import Statistic
from relexify.scoring import Score

__all__ = ["TaskMean", "TaskScores", "mean_scores", "moments_of", "task_notes"]


@dataclass(frozen=True)
class TaskScores:
    """The scores of one model on one task.

    Attributes:
        task: The name of the task in tables.
        step: The step of training that the model is from, counted over all trainings; None for the end.
        per_seed: The scores of each seed of fine-tuning, the main one first; one list for a probe. If there are several
            test sets, their averages.
        tests: The same for each of several test sets, by name.
        chosen: Hyperparameters that were chosen on development data, by name.
        hint: What is wrong with fine-tuned models that have not learned the task.

    Raises:
        InputError: There are no scores.
    """

    task: str
    step: int | None
    per_seed: tuple[tuple[Score, ...], ...]
    tests: Mapping[str, tuple[tuple[Score, ...], ...]] = field(default_factory=dict)
    chosen: Mapping[str, float] = field(default_factory=dict)
    hint: str = ""

    def __post_init__(self) -> None:
        if not self.per_seed or not all(self.per_seed):
            raise InputError(f"the task {self.task!r} has no scores: evaluate it, or leave it out")

    @property
    def main(self) -> tuple[Score, ...]:
        """The main score of each seed."""
        return tuple(scores[0] for scores in self.per_seed)

    @property
    def by_test(self) -> list[TaskScores]:
        """The scores on each of several test sets, then the averages; without such sets, only these scores."""
        parts = [TaskScores(f"{self.task} {name}", self.step, scores) for name, scores in self.tests.items()]
        return [*parts, self]

    def as_table(self) -> dict[str, Any]:
        """Return plain data for json."""
        return asdict(self)

    @classmethod
    def of_table(cls, table: Mapping[str, Any]) -> TaskScores:
        """Read what `as_table` returned.

        Raises:
            KeyError: A key is missing.
            TypeError: A score has other fields.
        """
        step = None if table["step"] is None else int(table["step"])
        tests = {name: _read_seeds(seeds) for name, seeds in table["tests"].items()}
        seeds, chosen = _read_seeds(table["per_seed"]), dict(table["chosen"])
        return cls(str(table["task"]), step, seeds, tests, chosen, str(table["hint"]))


@dataclass(frozen=True)
class TaskMean:
    """The main score of a run on a task, over all seeds of training and of fine-tuning.

    Attributes:
        score: With the mean as its value.
        statistic: The mean and the deviation.
    """

    score: Score
    statistic: Statistic


def moments_of(results: Iterable[TaskScores]) -> list[int | None]:
    """Return the steps after which models were evaluated, in their order; the end, None, comes last."""
    return sorted({result.step for result in results}, key=lambda step: math.inf if step is None else step)


def mean_scores(results: Iterable[TaskScores]) -> dict[tuple[str, int | None], TaskMean]:
    """Return the means over all results of a run, by task and step."""
    gathered: dict[tuple[str, int | None], list[Score]] = {}
    for result in results:
        gathered.setdefault((result.task, result.step), []).extend(result.main)
    means = {}
    for key, scores in gathered.items():
        found = Statistic.of([score.value for score in scores])
        means[key] = TaskMean(replace(scores[0], value=found.mean), found)
    return means


def task_notes(results: Iterable[TaskScores]) -> list[str]:
    """Return sentences on what was chosen on development data, and on models that have not learned a task."""
    notes = []
    for result in results:
        name = f"{result.task}, {'end' if result.step is None else f'step {result.step:,}'}"
        if result.chosen:
            values = ", ".join(f"{key} = {value:g}" for key, value in result.chosen.items())
            notes.append(f"{name}: {values}, chosen on development data")
        if result.hint:
            notes.append(f"{name}: {result.hint}")
    return notes


def _read_seeds(table: Iterable[Iterable[Mapping[str, Any]]]) -> tuple[tuple[Score, ...], ...]:
    return tuple(tuple(Score(**score) for score in scores) for scores in table)
