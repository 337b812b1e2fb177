"""Results of an evaluation: one for each seed, and their means and deviations."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from relexify.evaluation.metrics import Confusion, LabelRow
from relexify.scoring import Score

__all__ = ["Candidate", "SeedResult", "TaskResult"]


@dataclass(frozen=True)
class SeedResult:
    """The result of one training run, or of a probe.

    Attributes:
        seed: Seed of the new layers, of the order of the data and of dropout.
        scores: Scores on the test data, the main one first; with several test sets, averages over them.
        dev: Score on the development data in the epoch that was kept; None without development data.
        epoch: The epoch that was kept, from 1; None for a probe.
        table: Scores by label; empty if there are no labels, or several test sets.
        confusion: The confusion matrix; None if there are no labels, or several test sets.
        tests: If there are several test sets, the scores on each, by name.
        only_label: The label that the model predicts for every text or word; None if predictions differ.
    """

    seed: int
    scores: tuple[Score, ...]
    dev: Score | None = None
    epoch: int | None = None
    table: tuple[LabelRow, ...] = ()
    confusion: Confusion | None = None
    tests: Mapping[str, tuple[Score, ...]] = field(default_factory=dict)
    only_label: str | None = None

    @classmethod
    def over_tests(cls, seed: int, results: Mapping[str, SeedResult]) -> SeedResult:
        """Return the result on all test sets; a single test set has an empty name."""
        if list(results) == [""]:
            return replace(results[""], seed=seed)
        by_score = zip(*(result.scores for result in results.values()), strict=True)
        averages = tuple(
            replace(
                same[0],
                value=statistics.fmean(score.value for score in same),
                examples=sum(score.examples for score in same),
            )
            for same in by_score
        )
        only = {result.only_label for result in results.values()}
        return cls(
            seed,
            averages,
            tests={name: result.scores for name, result in results.items()},
            only_label=only.pop() if len(only) == 1 else None,
        )

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> SeedResult:
        """Return a result from the plain data that `dataclasses.asdict` created.

        Raises:
            KeyError: A value is missing.
            TypeError: A value has the wrong type, or is unknown.
        """
        dev, matrix = values["dev"], values["confusion"]
        return cls(
            int(values["seed"]),
            tuple(Score(**score) for score in values["scores"]),
            None if dev is None else Score(**dev),
            None if values["epoch"] is None else int(values["epoch"]),
            tuple(LabelRow(**row) for row in values["table"]),
            None if matrix is None else Confusion(tuple(matrix["labels"]), tuple(map(tuple, matrix["counts"]))),
            {name: tuple(Score(**score) for score in scores) for name, scores in values["tests"].items()},
            values["only_label"],
        )


@dataclass(frozen=True)
class Candidate:
    """One combination of hyperparameters in a search.

    Attributes:
        learning_rate: Peak learning rate.
        batch: Number of examples per step.
        dev: Score on development data.
    """

    learning_rate: float
    batch: int
    dev: float


@dataclass(frozen=True)
class TaskResult:
    """The result of a model on a task.

    Attributes:
        per_seed: The result of each seed; a probe is deterministic and has only one.
        search: The combinations of hyperparameters that were tried; empty without a search.
        encoders: The folders of the fine-tuned encoders that were kept, one for each seed.
    """

    per_seed: tuple[SeedResult, ...]
    search: tuple[Candidate, ...] = ()
    encoders: tuple[Path, ...] = ()

    @property
    def hint(self) -> str:
        """Advice if models have not learned the task, because they always predict the same; empty otherwise."""
        constant = [result.only_label for result in self.per_seed if result.only_label is not None]
        if not constant:
            return ""
        labels = " or ".join(sorted(set(map(repr, constant))))
        seeds = f" in {len(constant)} of {len(self.per_seed)} seeds" if len(self.per_seed) > 1 else ""
        return (
            f"the fine-tuned model predicts {labels} everywhere{seeds}, so it has not learned the task: train it for "
            "more epochs, with a higher learning rate, or on more examples"
        )

    @property
    def chosen(self) -> Candidate | None:
        """The combination with the best development score, the first if several are equal; None without search."""
        return max(self.search, key=lambda candidate: candidate.dev, default=None)

    @property
    def tests(self) -> dict[str, TaskResult]:
        """The result on each of several test sets, by name."""
        return {
            name: TaskResult(tuple(SeedResult(result.seed, result.tests[name]) for result in self.per_seed))
            for name in self.per_seed[0].tests
        }

    @property
    def mean(self) -> tuple[Score, ...]:
        """The mean of each score over the seeds, the main one first."""
        return tuple(
            replace(same[0], value=statistics.fmean(score.value for score in same))
            for same in zip(*(result.scores for result in self.per_seed), strict=True)
        )

    @property
    def deviation(self) -> tuple[float, ...] | None:
        """The sample standard deviation of each score over the seeds; None for a single seed."""
        if len(self.per_seed) == 1:
            return None
        return tuple(
            statistics.stdev(score.value for score in same)
            for same in zip(*(result.scores for result in self.per_seed), strict=True)
        )

    @property
    def table(self) -> tuple[LabelRow, ...]:
        """The mean of each label's scores over the seeds; seeds without this label in their table count as 0."""
        rows: dict[str, list[LabelRow]] = {}
        for result in self.per_seed:
            for row in result.table:
                rows.setdefault(row.label, []).append(row)
        count = len(self.per_seed)
        return tuple(
            LabelRow(
                label,
                sum(row.precision for row in same) / count,
                sum(row.recall for row in same) / count,
                sum(row.f1 for row in same) / count,
                same[0].examples,
            )
            for label, same in sorted(rows.items())
        )

    @property
    def confusion(self) -> Confusion | None:
        """The sum of the confusion matrices of all seeds; None if there are no labels."""
        matrices = [result.confusion for result in self.per_seed if result.confusion is not None]
        if not matrices:
            return None
        counts: Counter[tuple[str, str]] = Counter()
        for matrix in matrices:
            for gold, row in zip(matrix.labels, matrix.counts, strict=True):
                counts.update({(gold, label): count for label, count in zip(matrix.labels, row, strict=True)})
        labels = tuple(sorted({label for matrix in matrices for label in matrix.labels}))
        return Confusion(labels, tuple(tuple(counts[gold, label] for label in labels) for gold in labels))
