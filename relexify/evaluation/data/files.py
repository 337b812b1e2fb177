"""The files of a task, and the data in them."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from relexify.errors import InputError, MissingExtra
from relexify.evaluation.data.answers import Passage
from relexify.evaluation.data.choices import Question
from relexify.evaluation.data.examples import Example
from relexify.evaluation.registry import TASKS
from relexify.storage.files import missing_file
from relexify.text.remote import is_hub_data_set

if TYPE_CHECKING:
    from relexify.evaluation.data.columns import TaggedSentence
    from relexify.evaluation.data.propositions import PredicateSentence
    from relexify.evaluation.data.treebank import ParsedSentence

__all__ = ["TaskData", "TaskFiles", "check_files", "evenly_spaced", "find_files", "read_task"]

Item = TypeVar("Item")
_PARTS = (("train",), ("dev", "valid", "validation"), ("test",))
"""Words in the names of training, development and test files."""


@dataclass(frozen=True)
class TaskFiles:
    """The files of a task.

    Attributes:
        train: Training data: a file, or several files that are read one after the other.
        test: Test data: a file, or several files by name, which are scored separately.
        dev: Development data, to choose the best epoch: a file, or several files that are read one after the other.
    """

    train: str | Path | Sequence[str | Path]
    test: str | Path | Mapping[str, str | Path]
    dev: str | Path | Sequence[str | Path] | None = None

    @property
    def all(self) -> list[tuple[str, str | Path]]:
        """Every file, with its purpose."""
        tests = self.test if isinstance(self.test, Mapping) else {"": self.test}
        return [
            *(("train", file) for file in _as_list(self.train)),
            *(("dev", file) for file in _as_list(self.dev or ())),
            *((f"test.{name}" if name else "test", file) for name, file in tests.items()),
        ]


@dataclass(frozen=True)
class TaskData:
    """The data of a task: examples, tagged sentences or trees.

    Attributes:
        train: Training data.
        test: Test data, or several test sets by name.
        dev: Development data, to choose the best epoch.
    """

    train: Sequence[Any]
    test: Sequence[Any] | Mapping[str, Sequence[Any]]
    dev: Sequence[Any] | None = None

    @property
    def tests(self) -> Mapping[str, Sequence[Any]]:
        """The test sets by name; a single test set has an empty name."""
        return self.test if isinstance(self.test, Mapping) else {"": self.test}

    @property
    def repeated_tests(self) -> int:
        """Number of test examples with the same text as a training example; labels are ignored."""
        learned = {_text_of(item) for item in self.train}
        return sum(_text_of(item) in learned for test in self.tests.values() for item in test)


def find_files(data: str | Path) -> TaskFiles:
    """Return the training, development and test files of a folder, recognised by their names.

    If there is no test file, the development file is used for testing.

    Raises:
        InputError: The folder does not exist, or lacks a training file or a test file.
    """
    folder = Path(data)
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder: give a folder with train, dev and test files, or name the files")
    train, dev, test = (_find_file(folder, names) for names in _PARTS)
    if test is None:
        test, dev = dev, None
    if train is None or test is None:
        missing = "train" if train is None else "dev or test"
        raise InputError(
            f"{folder} has no file with {missing} in its name: name the files with `train`, `dev` and `test`"
        )
    return TaskFiles(train, test, dev)


def check_files(files: TaskFiles) -> None:
    """Validate, before anything is read, that all files exist; data sets of the Hub are not checked.

    Raises:
        InputError: A file does not exist.
    """
    for _, file in files.all:
        if not is_hub_data_set(file) and not Path(file).exists():
            raise missing_file(Path(file))


def read_task(task: str, files: TaskFiles, *, examples: int | None = None) -> TaskData:
    """Read the files of a task.

    Args:
        task: One of `TASKS`.
        files: The files to read.
        examples: Keep this many training examples, evenly spaced in the file; all if None.

    Raises:
        InputError: A file is missing or invalid, or the task needs development data, but there is none.
        MissingExtra: The task needs a package that is not installed.
    """
    entry = TASKS.get_or_raise(task)
    for package, purpose in entry.packages:
        if not _is_installed(package.replace("-", "_")):
            raise MissingExtra(package, purpose, "evaluation")
    if entry.needs_dev and files.dev is None:
        raise InputError(f"{task} needs development data to choose the best epoch: give it (`dev`)")
    train = [item for file in _as_list(files.train) for item in entry.read(file)]
    dev = None if files.dev is None else [item for file in _as_list(files.dev) for item in entry.read(file)]
    test: Sequence[Any] | dict[str, Sequence[Any]]
    if isinstance(files.test, Mapping):
        test = {name: entry.read(file) for name, file in files.test.items()}
    else:
        test = entry.read(files.test)
    return TaskData(evenly_spaced(train, examples), test, dev)


def evenly_spaced(items: Sequence[Item], count: int | None) -> Sequence[Item]:
    """Return `count` items at even distances; all items if None."""
    if count is None or count >= len(items):
        return items
    return [items[number * len(items) // count] for number in range(count)]


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # the parent package is not installed
        return False


def _as_list(files: str | Path | Sequence[str | Path]) -> Sequence[str | Path]:
    return [files] if isinstance(files, str | Path) else files


def _text_of(
    item: Example | Question | Passage | TaggedSentence | ParsedSentence | PredicateSentence,
) -> tuple[str | None, ...]:
    """Return the words of a sentence, or the texts of any other example, without its labels."""
    if isinstance(item, Passage):
        return item.context, item.question
    if isinstance(item, Example | Question):
        return item.first, item.second
    return item.words


def _find_file(folder: Path, names: tuple[str, ...]) -> Path | None:
    """Return the only file whose name contains one of the words; None if there is no such file."""
    files = (path for path in sorted(folder.iterdir()) if path.is_file())
    found = [path for path in files if set(re.split(r"[^a-z]+", path.name.lower())) & set(names)]
    if len(found) > 1:
        raise InputError(
            f"{folder} has several files for {names[0]} ({', '.join(path.name for path in found[:5])}): "
            f"name them with `train`, `dev` and `test` instead of `data`"
        )
    return found[0] if found else None
