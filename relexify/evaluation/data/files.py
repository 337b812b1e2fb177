"""The files of a task: which they are, and what they hold."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from relexify.errors import InputError, MissingExtra
from relexify.evaluation.data.columns import TaggedSentence, read_columns
from relexify.evaluation.data.labelled_lines import GLUE_TASKS, read_glue
from relexify.evaluation.data.pairs import read_examples
from relexify.evaluation.data.treebank import read_treebank

__all__ = ["TaskData", "TaskFiles", "find_files", "read_task"]

Item = TypeVar("Item")
_PARTS = {"train": ("train",), "dev": ("dev", "valid", "validation"), "test": ("test",)}


@dataclass(frozen=True)
class TaskFiles:
    """Where the data of a task lies.

    Attributes:
        train: To learn from.
        test: To measure on.
        dev: To choose the best epoch by.
    """

    train: str | Path
    test: str | Path
    dev: str | Path | None = None


@dataclass(frozen=True)
class TaskData:
    """What the files hold: examples, tagged sentences or trees, by the task.

    Attributes:
        train: To learn from.
        test: To measure on.
        dev: To choose the best epoch by; None where there is no such file.
    """

    train: Sequence[Any]
    test: Sequence[Any]
    dev: Sequence[Any] | None


def find_files(data: str | Path) -> TaskFiles:
    """The training, development and test files of a folder, told by their names.

    Raises:
        InputError: There is no folder, or it lacks a file to learn from or to measure on.
    """
    folder = Path(data)
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder: give one with train, dev and test files, or name the files")
    found = {part: _named(folder, names) for part, names in _PARTS.items()}
    if found["train"] is None or not (found["test"] or found["dev"]):
        missing = "train" if found["train"] is None else "dev or test"
        raise InputError(f"{folder} has no file whose name says {missing}: name the files yourself")
    return TaskFiles(found["train"], found["test"] or found["dev"] or "", found["dev"] if found["test"] else None)


def read_task(task: str, files: TaskFiles, *, examples: int | None = None) -> TaskData:
    """Read the files of a task.

    Args:
        task: One of `EVALUATIONS`.
        files: Where they are.
        examples: Learn from so many, taken at even distances from the training file; from all if not given.

    Raises:
        InputError: A file is missing or not what it should be, or parsing has no development treebank.
        MissingExtra: The task needs a package that is not installed.
    """
    if task == "ner" and importlib.util.find_spec("seqeval") is None:
        raise MissingExtra("seqeval", "scoring names", "evaluation")
    if task == "parse" and files.dev is None:
        raise InputError("parsing needs a development treebank to choose the best epoch by: give one (--dev)")
    train, test = (_read(task, path) for path in (files.train, files.test))
    return TaskData(_thinned(train, examples), test, None if files.dev is None else _read(task, files.dev))


def _read(task: str, path: str | Path) -> Sequence[Any]:
    if task == "parse":
        return read_treebank(path)
    if task in ("ner", "pos"):
        return _tagged(path)
    return read_glue(path, task) if task in GLUE_TASKS else read_examples(path)


def _tagged(path: str | Path) -> list[TaggedSentence]:
    if ".conllu" in Path(path).suffixes:
        return [TaggedSentence(tuple(each.words), tuple(each.upos)) for each in read_treebank(path)]
    return read_columns(path)


def _thinned(items: Sequence[Item], count: int | None) -> Sequence[Item]:
    """So many items at even distances; all where there are no more."""
    if count is None or count >= len(items):
        return items
    return [items[place * len(items) // count] for place in range(count)]


def _named(folder: Path, names: tuple[str, ...]) -> Path | None:
    """The file whose name has one of the words in it, where there is just one."""
    files = (path for path in sorted(folder.iterdir()) if path.is_file())
    found = [path for path in files if set(re.split(r"[^a-z]+", path.name.lower())) & set(names)]
    if len(found) > 1:
        raise InputError(
            f"{folder} has several files for {names[0]} ({', '.join(path.name for path in found[:5])}): "
            f"name them with --train, --dev and --test instead of --data"
        )
    return found[0] if found else None
