"""The labels of a task, collected from its training data, and validation of its data before anything is trained."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from relexify.errors import InputError
from relexify.evaluation.data.answers import Passage
from relexify.evaluation.data.choices import Question
from relexify.evaluation.data.columns import TaggedSentence
from relexify.evaluation.data.examples import Example
from relexify.evaluation.data.files import TaskData
from relexify.evaluation.registry import TASKS, Task

__all__ = ["Data", "Problem", "find_labels"]

Data = Sequence[Example] | Sequence[Question] | Sequence[Passage] | Sequence[TaggedSentence]

_OUTSIDE = "O"

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Problem:
    """A task with its labels.

    Attributes:
        name: The name of the task.
        task: Its entry in the registry.
        labels: The labels in the order of the logits; a single one for a number, the positions of the answers for a
            choice, the two ends of an answer in a text.
        default: The tag of words that the model does not see.
    """

    name: str
    task: Task
    labels: tuple[str, ...]
    default: str


def find_labels(name: str, data: TaskData) -> Problem:
    """Collect the labels of the training data, and validate that all data fits the task and the labels.

    Raises:
        InputError: There is no data, it is of another kind, or its labels do not fit.
    """
    task = TASKS[name]
    parts: dict[str, Data] = {"training": data.train}
    parts |= {f"test ({test})" if test else "test": examples for test, examples in data.tests.items()}
    if data.dev is not None:
        parts["development"] = data.dev
    _check_types(name, task, parts)
    if task.predicts == "number":
        _check_numbers(parts)
        _check_pairs(parts)
        return Problem(name, task, ("number",), "")
    if task.predicts == "answer":
        return Problem(name, task, ("start", "end"), "")
    if task.predicts == "choice":
        most = max(len(each.options) for data in parts.values() for each in data if isinstance(each, Question))
        return Problem(name, task, tuple(map(str, range(most))), "")
    counts = {part: Counter(_labels(examples)) for part, examples in parts.items()}
    for part, found in counts.items():
        if not found:
            raise InputError(f"the {part} data has only sentences without words: give some with words")
    labels = tuple(sorted(counts["training"]))
    if len(labels) < 2:
        raise InputError(f"all training data has the label {labels[0]!r}, so nothing can be learned: give other data")
    if task.predicts == "class":
        _check_pairs(parts)
    for part, found in counts.items():
        unknown = sorted(found.keys() - set(labels))
        if unknown and task.predicts == "class":
            raise InputError(
                f"the {part} data has the label {', '.join(map(repr, unknown[:5]))}, which the training data never has "
                f"(it has {', '.join(labels[:10])}): give data with the same labels"
            )
        if unknown:  # rare tags are often missing from a small training set
            logger.warning(
                "%d words of the %s data have tags that the training data never has (%s): they count as wrong",
                sum(found[tag] for tag in unknown),
                part,
                ", ".join(unknown[:5]),
            )
    frequent = max(labels, key=lambda label: counts["training"][label])
    return Problem(name, task, labels, _OUTSIDE if _OUTSIDE in labels else frequent)


def _check_types(name: str, task: Task, parts: Mapping[str, Data]) -> None:
    """Validate that every part of the data has examples, all of the kind that the task takes."""
    expected: type = {"tags": TaggedSentence, "choice": Question, "answer": Passage}.get(task.predicts, Example)
    for part, data in parts.items():
        if not data:
            raise InputError(f"there is no {part} data: give at least one example")
        if other := next((each for each in data if not isinstance(each, expected)), None):
            raise InputError(
                f"the {part} data holds a {type(other).__name__}, the task {name} takes {expected.__name__}s: "
                "choose another task, or another reader"
            )


def _labels(data: Data) -> Iterator[str]:
    """Yield the tags of all words, or the classes of all examples."""
    for each in data:
        if isinstance(each, TaggedSentence):
            yield from each.tags
        elif isinstance(each, Example):
            if not isinstance(each.label, str):
                raise InputError(
                    f"{each.label} is a number, and the task takes classes: give their names, or another task"
                )
            yield each.label


def _check_numbers(parts: Mapping[str, Data]) -> None:
    for part, data in parts.items():
        for each in data:
            if isinstance(each, Example) and not (isinstance(each.label, int | float) and math.isfinite(each.label)):
                raise InputError(f"the {part} data has the label {each.label!r}, the task takes numbers: give those")


def _check_pairs(parts: Mapping[str, Data]) -> None:
    kinds = {each.second is not None for data in parts.values() for each in data if isinstance(each, Example)}
    if len(kinds) > 1:
        raise InputError("some examples are pairs of texts and some are single ones: give one kind of them")
