"""Labelled texts as tab-separated lines: NLI, and GLUE as it is shipped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from relexify.errors import InputError
from relexify.evaluation.data.labelled_texts import (
    NO_AGREEMENT,
    Example,
    check_label,
    example_of,
    found_examples,
    label_of,
    numbered_lines,
)

__all__ = ["GLUE_TASKS", "NLI_LABELS", "GlueFile", "read_glue", "read_nli"]

NLI_LABELS = ("contradiction", "entailment", "neutral")


@dataclass(frozen=True)
class GlueFile:
    """How GLUE writes a task: the columns of the two texts and of the label, under a header where it has one."""

    header: tuple[str, ...] | None
    columns: int
    first: int
    second: int | None
    label: int
    labels: tuple[str, ...] | None


_BINARY = ("0", "1")

_STS_HEADER = (
    "index", "genre", "filename", "year", "old_index", "source1", "source2", "sentence1", "sentence2", "score",
)  # fmt: skip

GLUE_TASKS: Mapping[str, GlueFile] = {
    "cola": GlueFile(None, 4, 3, None, 1, _BINARY),
    "sst-2": GlueFile(("sentence", "label"), 2, 0, None, 1, _BINARY),
    "mrpc": GlueFile(("Quality", "#1 ID", "#2 ID", "#1 String", "#2 String"), 5, 3, 4, 0, _BINARY),
    "rte": GlueFile(("index", "sentence1", "sentence2", "label"), 4, 1, 2, 3, ("entailment", "not_entailment")),
    "sts-b": GlueFile(_STS_HEADER, 10, 7, 8, 9, None),
}
"""The tasks whose files `read_glue` knows; names are compared without regard to case."""


def read_nli(path: str | Path, *, labels: Sequence[str] = NLI_LABELS) -> list[Example]:
    """Read lines of premise, hypothesis, label and perhaps a source, with a tab between them.

    A header is skipped, and so are pairs on whose label nobody agreed (`-`).

    Args:
        path: The file, plain or compressed.
        labels: The only ones to be expected.

    Raises:
        InputError: It cannot be read, is empty, or a line is not what it should be.
    """
    path, examples, skipped = Path(path), [], 0
    for number, columns in _rows(path):
        place = f"{path}, line {number},"
        if len(columns) not in (3, 4):
            raise InputError(
                f"{place} has {_count(len(columns), 'column')}: "
                "each line must be premise, hypothesis and label with a tab between them, and perhaps a source"
            )
        if number == 1 and columns[2] in ("label", "gold_label"):
            continue
        if columns[2] == NO_AGREEMENT:
            skipped += 1
            continue
        check_label(columns[2], labels, place)
        examples.append(example_of(columns[0], columns[1], columns[2], place))
    return found_examples(examples, skipped, path)


def read_glue(path: str | Path, task: str) -> list[Example]:
    """Read a labelled file of a GLUE task as GLUE ships it.

    Args:
        path: Its `train.tsv` or `dev.tsv`, plain or compressed.
        task: One of `GLUE_TASKS`, such as `"CoLA"`; labels of STS-B are numbers from 0 to 5.

    Raises:
        InputError: There is no such task, the file cannot be read, or is not the task's.
    """
    layout = GLUE_TASKS.get(task.lower())
    if layout is None:
        raise InputError(f"there is no GLUE task {task!r} here: choose one of {', '.join(GLUE_TASKS)}")
    path, rows, examples = Path(path), _rows(Path(path)), []
    if layout.header:
        _, header = next(rows, (1, []))
        if not header:
            raise InputError(f"{path} is empty: give a file with examples")
        if tuple(header) != layout.header:
            raise InputError(
                f"{path} does not begin with the columns of {task} ({', '.join(layout.header)}) "
                f"but with {', '.join(header)[:100]}: give its train.tsv or dev.tsv (those of test.tsv have no labels)"
            )
    for number, columns in rows:
        place = f"{path}, line {number},"
        if len(columns) != layout.columns:
            raise InputError(
                f"{place} has {_count(len(columns), 'column')}, {task} has {layout.columns}: "
                "fetch the file anew, or check which task it belongs to"
            )
        label = label_of(columns[layout.label], layout.labels, place, numeric=layout.labels is None)
        second = None if layout.second is None else columns[layout.second]
        examples.append(example_of(columns[layout.first], second, label, place))
    return found_examples(examples, 0, path)


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the columns of the lines that are not empty, with their numbers."""
    return ((number, line.split("\t")) for number, line in numbered_lines(path) if line.strip())


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
