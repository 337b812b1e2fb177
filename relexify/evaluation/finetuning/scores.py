"""What a fine-tuned model scores on a task, by the task's own metric."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from relexify.evaluation.finetuning.problem import Problem
from relexify.evaluation.metrics import (
    Confusion,
    LabelRow,
    accuracy,
    accuracy_and_f1,
    confusion,
    correlations,
    entity_scores,
    entity_table,
    label_table,
    matthews,
)
from relexify.scoring import Score

__all__ = ["Measured", "measure"]


@dataclass(frozen=True)
class Measured:
    """Scores, the most telling one first, and where they come from."""

    scores: tuple[Score, ...]
    table: tuple[LabelRow, ...]
    confusion: Confusion | None


def measure(problem: Problem, gold: list[Any], predicted: list[Any]) -> Measured:
    """Hold what a model said against what is right, example by example; of words, sentence by sentence."""
    name, metric = problem.name, problem.task.metric
    if metric == "correlations":
        return Measured(correlations(gold, predicted, task=name), (), None)
    if problem.task.kind == "tags":
        words, said = [tag for tags in gold for tag in tags], [tag for tags in predicted for tag in tags]
        if metric == "entities":
            scores, table = entity_scores(gold, predicted, task=name), entity_table(gold, predicted)
            return Measured(scores, table, confusion(words, said))
        gold, predicted = words, said
    scores_of: dict[str, Callable[..., tuple[Score, ...]]] = {
        "accuracy": lambda *pair: (accuracy(*pair, task=name),),
        "matthews": lambda *pair: (matthews(*pair, task=name), accuracy(*pair, task=name)),
        "accuracy and F1": lambda *pair: accuracy_and_f1(*pair, task=name),
    }
    return Measured(scores_of[metric](gold, predicted), label_table(gold, predicted), confusion(gold, predicted))
