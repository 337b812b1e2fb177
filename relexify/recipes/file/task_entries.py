"""What a recipe measures its models on: the tables `[[tasks]]`.

[[tasks]]
task = "ner"
train = "$DATA/train.tsv"
test = "$DATA/test.tsv"
epochs = 3
seeds = [0, 1]
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relexify.errors import InputError, RelexifyError
from relexify.recipes.file.paths import Place, corpus_name, written_corpus
from relexify.recipes.file.values import choose, convert_fields
from relexify.recipes.file.writing import differing
from relexify.storage.files import sha256_of

if TYPE_CHECKING:
    from relexify.evaluation.data.files import TaskFiles
    from relexify.evaluation.options import Evaluation

__all__ = ["TaskEntry", "check_task_languages", "check_tasks", "read_tasks", "written_task"]

_NAME = re.compile(r"\w[\w.+-]*")
_FILES = ("train", "dev", "test")
_LANGUAGES = ("language", "through")


@dataclass(frozen=True)
class TaskEntry:
    """One task that models are measured on.

    Attributes:
        task: One of `TASKS`.
        train: The file to learn from.
        test: The file to measure on.
        dev: The file to choose the best epoch by.
        language: Of a bilingual model, the language that is learnt from.
        through: Of a bilingual model, the other language, which it is tested through: zero-shot transfer.
        name: What tables call it; the task's own name if not given.
        probe: As in `Evaluation`, with all that follows.
        epochs: Passes over the training data.
        batch: Examples a step.
        learning_rate: The peak.
        score_learning_rate: For parsing: that of what stands on top of the encoder.
        examples: Learn from so many.
        seeds: One run for each.
    """

    task: str
    train: str
    test: str
    dev: str | None = None
    language: str | None = None
    through: str | None = None
    name: str | None = None
    probe: bool = False
    epochs: int | None = None
    batch: int | None = None
    learning_rate: float | None = None
    score_learning_rate: float | None = None
    examples: int | None = None
    seeds: tuple[int, ...] = (0,)

    @property
    def title(self) -> str:
        """What tables and files call it."""
        return self.name or "-".join(
            [self.task, *(["probe"] if self.probe else []), *([self.through] if self.through else [])]
        )

    @property
    def files(self) -> TaskFiles:
        """Its data."""
        from relexify.evaluation.data.files import TaskFiles

        return TaskFiles(self.train, self.test, self.dev)

    def evaluation(self, device: str = "auto") -> Evaluation:
        """How a model is measured on it."""
        from relexify.evaluation.options import Evaluation

        options = {name: value for name, value in asdict(self).items() if name not in (*_FILES, "name")}
        return Evaluation(**options, device=device)

    def identity(self) -> str:
        """A name that changes with everything that a result depends on but the model, by content."""
        unsaid = [name for name in _LANGUAGES if getattr(self, name) is None]
        values: dict[str, Any] = {name: value for name, value in asdict(self).items() if name not in ("name", *unsaid)}
        for key in _FILES:
            if values[key] is not None and Path(values[key]).is_file():
                values[key] = sha256_of(values[key])
        return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def read_tasks(tables: object, place: Place) -> tuple[TaskEntry, ...]:
    """Read the tables `[[tasks]]`.

    Raises:
        InputError: A key is unknown or missing, a value is of another type or impossible, there is no such task, or
            two of them have the same name.
    """
    if not isinstance(tables, list):
        raise InputError(f"{place} is no list of tables: write [[{place.key}]] above each of them")
    entries: list[TaskEntry] = []
    for index, table in enumerate(tables):
        entries.append(_read_entry(table, place.at(index)))
        if entries[-1].title in [entry.title for entry in entries[:-1]]:
            raise InputError(f"{place.at(index)} is called {entries[-1].title!r}, as is one above it: give it a name")
    return tuple(entries)


def check_tasks(entries: Sequence[TaskEntry], model: str, source: Path) -> None:
    """Find out before the work begins what would stop a measurement at its end.

    Args:
        entries: The tasks.
        model: What is transferred or trained.
        source: The recipe, for messages.

    Raises:
        InputError: A file is missing or not what it should be, or the model cannot do a task.
    """
    from relexify.evaluation.data.files import read_task
    from relexify.evaluation.evaluate import check_model
    from relexify.evaluation.finetuning.problem import problem_of
    from relexify.evaluation.registry import TASKS

    for index, entry in enumerate(entries):
        place = Place(source, f"tasks[{index}]")
        for key in _FILES:
            file = getattr(entry, key)
            if file is not None and not file.startswith("hf:") and not Path(file).is_file():
                raise InputError(f"{place.below(key)} is {file}, which is no file: check the path")
        try:
            check_model(model, entry.evaluation())
            data = read_task(entry.task, entry.files, examples=entry.examples)
            if TASKS[entry.task].needs_encoder and not entry.probe:
                problem_of(entry.task, data.train, data.test, data.dev)
        except RelexifyError as error:
            raise type(error)(f"{place}: {error}") if isinstance(error, InputError) else error from error


def check_task_languages(entries: Sequence[TaskEntry], languages: Sequence[str], place: Place) -> None:
    """Make sure that tasks name languages of the model that they are measured on.

    Args:
        entries: The tasks.
        languages: Of the model; none where it has one only.
        place: Of the tasks.

    Raises:
        InputError: A task names a language that the model has not, or none of a model with two.
    """
    for index, entry in enumerate(entries):
        for key in _LANGUAGES:
            there, named = place.at(index).below(key), getattr(entry, key)
            if named is not None and not languages:
                raise InputError(
                    f"{there} is {named!r}, and the model has one language: leave it out, or add [bilingual]"
                )
            if named is not None:
                choose(named, languages, there, "language")
        if entry.through is not None and entry.through == entry.language:
            raise InputError(
                f"{place.at(index).below('through')} is {entry.through!r}, the language that it is learnt through: "
                "name the other one, or leave it out"
            )
        if languages and entry.language is None:
            raise InputError(
                f"{place.origin}: [{place.at(index).key}] lacks language, the one to learn the task through: "
                f"give one of {', '.join(languages)}"
            )


def written_task(entry: TaskEntry) -> dict[str, Any]:
    """A table that `read_tasks` reads as this entry, wherever the recipe lies."""
    files = {key: written_corpus(getattr(entry, key)) for key in _FILES if getattr(entry, key) is not None}
    return differing(entry) | files


def _read_entry(table: object, place: Place) -> TaskEntry:
    from relexify.evaluation.registry import TASKS

    values = convert_fields(table, TaskEntry, place)
    choose(values["task"], TASKS, place.below("task"), "task")
    for key in _FILES:
        if key in values:
            values[key] = corpus_name(values[key], place.below(key))
    entry = TaskEntry(**values)
    if TASKS[entry.task].needs_dev and entry.dev is None:
        raise InputError(f"{place.origin}: [{place.key}] lacks dev: {entry.task} chooses the best epoch by it")
    if not _NAME.fullmatch(entry.title):
        raise InputError(
            f"{place.below('name')} is {entry.name!r}, which names no folder: use letters, digits, '-', '.'"
        )
    try:
        entry.evaluation()
    except InputError as error:
        raise InputError(f"{place}: {error}") from error
    return entry
