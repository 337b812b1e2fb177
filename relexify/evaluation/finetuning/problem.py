"""What is to be learnt: the labels, told from the training data, and data that does not fit refused."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from relexify.errors import InputError
from relexify.evaluation.data.columns import TaggedSentence
from relexify.evaluation.data.examples import Example
from relexify.evaluation.registry import TASKS, Task

__all__ = ["Data", "Problem", "problem_of"]

Data = Sequence[Example] | Sequence[TaggedSentence]

_OUTSIDE = "O"

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Problem:
    """What is to be learnt: the labels by number, and the one for words that no piece speaks for."""

    name: str
    task: Task
    labels: tuple[str, ...]
    default: str


def problem_of(name: str, training: Data, test: Data, dev: Data | None) -> Problem:
    """What is to be learnt, told from the training data; the other data must fit.

    Raises:
        InputError: There is no data, it is of another kind, or its labels do not fit.
    """
    task = TASKS[name]
    sets = {"training": training, "test": test, **({} if dev is None else {"development": dev})}
    _check_kinds(name, task, sets)
    if task.predicts == "number":
        _check_numbers(sets)
        _check_pairs(sets)
        return Problem(name, task, ("number",), "")
    counts = {called: Counter(_labels(data)) for called, data in sets.items()}
    for called, found in counts.items():
        if not found:
            raise InputError(f"the {called} data holds sentences without words alone: give some with words")
    labels = tuple(sorted(counts["training"]))
    if len(labels) < 2:
        raise InputError(f"all training data has the label {labels[0]!r}, and nothing can be learnt: give other data")
    if task.predicts == "class":
        _check_pairs(sets)
    for called, found in counts.items():
        _check_known(called, found, labels, refuse=task.predicts == "class")
    frequent = max(labels, key=lambda label: counts["training"][label])
    return Problem(name, task, labels, _OUTSIDE if _OUTSIDE in labels else frequent)


def _check_kinds(name: str, task: Task, sets: Mapping[str, Data]) -> None:
    wanted: type = TaggedSentence if task.predicts == "tags" else Example
    for called, data in sets.items():
        if not data:
            raise InputError(f"there is no {called} data: give at least one example")
        if foreign := next((each for each in data if not isinstance(each, wanted)), None):
            raise InputError(
                f"the {called} data holds a {type(foreign).__name__}, the task {name} takes {wanted.__name__}s: "
                "choose another task, or another reader"
            )


def _labels(data: Data) -> Iterator[str]:
    for each in data:
        if isinstance(each, TaggedSentence):
            yield from each.tags
        elif isinstance(each.label, str):
            yield each.label
        else:
            raise InputError(f"{each.label} is a number, and the task takes classes: give their names, or another task")


def _check_known(called: str, found: Counter[str], labels: tuple[str, ...], *, refuse: bool) -> None:
    unknown = sorted(found.keys() - set(labels))
    if unknown and refuse:
        raise InputError(
            f"the {called} data has the label {', '.join(map(repr, unknown[:5]))}, which the training data never has "
            f"(it has {', '.join(labels[:10])}): give data with the same labels"
        )
    if unknown:
        count = sum(found[tag] for tag in unknown)
        logger.warning(
            "%d words of the %s data have tags that the training data never has (%s): they count as wrong",
            count,
            called,
            ", ".join(unknown[:5]),
        )


def _check_numbers(sets: Mapping[str, Data]) -> None:
    for called, data in sets.items():
        for each in data:
            if isinstance(each, Example) and not (isinstance(each.label, int | float) and math.isfinite(each.label)):
                raise InputError(f"the {called} data has the label {each.label!r}, the task takes numbers: give those")


def _check_pairs(sets: Mapping[str, Data]) -> None:
    paired = {each.second is not None for data in sets.values() for each in data if isinstance(each, Example)}
    if len(paired) > 1:
        raise InputError("some examples are pairs of texts and some are single ones: give one kind of them")
