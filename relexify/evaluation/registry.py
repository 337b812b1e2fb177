"""The tasks that a model can be evaluated on.

A task is one small module in `evaluation/tasks/` that adds an entry to `TASKS`. Recipes, the command line and the
documentation read this registry. Neither this module nor the modules of tasks import torch; functions import the code
for evaluation when they need it.

    TASKS.add("pos", Task(summary="part-of-speech tagging; accuracy", read=read_tagged_words, …))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from relexify.registry import Registry

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

    from relexify.evaluation.data.files import TaskData
    from relexify.evaluation.metrics import LabelRow
    from relexify.evaluation.options import Evaluation, FineTuning, ParserTraining, Probing
    from relexify.evaluation.results import TaskResult
    from relexify.scoring import Score

__all__ = ["TASKS", "Evaluator", "Metric", "Probe", "Table", "Task"]

Evaluator = Callable[[str, "TaskData", "Evaluation", Path], "TaskResult"]
"""Takes the model, data, options, and a folder for unfinished work; trains the model for a task and tests it."""

Probe = Callable[["PreTrainedModel", "PreTrainedTokenizerFast", "TaskData", "Probing"], "Score"]
"""Trains a linear probe on the hidden states of a model and tests it."""

Table = Callable[[Sequence[Any], Sequence[Any]], "tuple[LabelRow, ...]"]
"""Compares gold labels with predictions, label by label."""


class Metric(Protocol):
    """Compares gold labels with predictions; for tags, both are lists of sentences."""

    def __call__(self, gold: Sequence[Any], predicted: Sequence[Any], /, *, task: str) -> tuple[Score, ...]:
        """Return the scores, the main one first: the best epoch is chosen by it."""
        ...


@dataclass(frozen=True)
class Task:
    """A task.

    Attributes:
        summary: The task and its scores in one line, for help and documentation.
        read: Reads a file of examples or annotated sentences.
        predicts: The kind of prediction: a class or a number for a text or a pair, the right one of several answers,
            the part of a text that answers a question, tags of words, trees, or semantic roles.
        metric: Computes the scores that are reported.
        training: The default training options, from the paper that the task is taken from.
        table: Computes scores by label; None if there are no labels.
        probe: Evaluates a linear probe; None if the task has no probe.
        evaluate: Trains and tests a model; None for ordinary fine-tuning.
        needs_encoder: Whether only encoders can be evaluated.
        needs_dev: Whether development data is required.
        suite: The benchmark that it is part of, if it is best known by that.
        packages: Optional packages that the task needs, each with its purpose. The name is the pip name, which must
            equal the module name except for `-` in place of `_`.
    """

    summary: str
    read: Callable[[str | Path], Sequence[Any]]
    predicts: Literal["class", "number", "choice", "answer", "tags", "trees", "roles"]
    metric: Metric
    training: FineTuning | ParserTraining
    table: Table | None = None
    probe: Probe | None = None
    evaluate: Evaluator | None = None
    needs_encoder: bool = True
    needs_dev: bool = False
    suite: str = ""
    packages: tuple[tuple[str, str], ...] = ()


TASKS: Registry[Task] = Registry("task")
"""All tasks, by the name in `Evaluation.task`."""
