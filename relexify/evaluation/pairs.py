"""Labelled texts and pairs of texts: NLI as tab-separated lines, GLUE as it is shipped, json records, data sets.

Every reader gives `Example`s in the order of the file and refuses a line that it does not understand, by its number.
Quotes are letters like all others: none of these formats escapes anything.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from relexify.errors import InputError, MissingExtra
from relexify.text.decoding import COMPRESSIONS, read_blocks
from relexify.tokens import encodable

__all__ = [
    "GLUE_TASKS",
    "NLI_LABELS",
    "Example",
    "FieldNames",
    "read_data_set",
    "read_examples",
    "read_glue",
    "read_nli",
    "read_records",
]

NLI_LABELS = ("contradiction", "entailment", "neutral")
NO_AGREEMENT = "-"
"""What SNLI and MNLI write where the annotators did not agree."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Example:
    """A text, or a pair of texts, with what is to be said of it.

    Attributes:
        first: The text, or the premise.
        second: The hypothesis, or the other sentence of a pair.
        label: A class by its name, or a number where a number is to be predicted.
    """

    first: str
    second: str | None
    label: str | float


@dataclass(frozen=True)
class FieldNames:
    """What the fields of a record are called.

    Attributes:
        first: Of the text, or the premise.
        second: Of the other text; None where there is none.
        label: Of the label.
    """

    first: str
    second: str | None
    label: str = "label"


KNOWN_FIELDS = (
    FieldNames("premise", "hypothesis"),
    FieldNames("sentence1", "sentence2"),
    FieldNames("sentence", None),
    FieldNames("text", None),
)


@dataclass(frozen=True)
class _GlueFile:
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
GLUE_TASKS: Mapping[str, _GlueFile] = {
    "cola": _GlueFile(None, 4, 3, None, 1, _BINARY),
    "sst-2": _GlueFile(("sentence", "label"), 2, 0, None, 1, _BINARY),
    "mrpc": _GlueFile(("Quality", "#1 ID", "#2 ID", "#1 String", "#2 String"), 5, 3, 4, 0, _BINARY),
    "rte": _GlueFile(("index", "sentence1", "sentence2", "label"), 4, 1, 2, 3, ("entailment", "not_entailment")),
    "sts-b": _GlueFile(_STS_HEADER, 10, 7, 8, 9, None),
}
"""The tasks whose files `read_glue` knows; names are compared without regard to case."""


def read_examples(
    source: str | Path,
    *,
    fields: FieldNames | None = None,
    labels: Sequence[str] | None = None,
    numeric: bool = False,
) -> list[Example]:
    """Read whatever `source` names: `hf:…`, json records (`.jsonl`), or tab-separated lines of NLI.

    Args:
        source: A file, plain or compressed, or `hf:NAME[:CONFIG[:SPLIT]]`.
        fields: Of records; told from the first one if not given.
        labels: The only ones to be expected.
        numeric: Whether the labels of records are numbers to predict.

    Raises:
        InputError: It cannot be read, or a line is not what it should be.
        MissingExtra: A package is needed to read it.
    """
    if str(source).startswith("hf:"):
        return read_data_set(str(source), fields=fields, labels=labels, numeric=numeric)
    if _kind(Path(source)) in (".jsonl", ".ndjson", ".json"):
        return read_records(source, fields=fields, labels=labels, numeric=numeric)
    return read_nli(source, labels=NLI_LABELS if labels is None else labels)


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
        _check_label(columns[2], labels, place)
        examples.append(_example(columns[0], columns[1], columns[2], place))
    return _found(examples, skipped, path)


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
        label = _label(columns[layout.label], layout.labels, place, numeric=layout.labels is None)
        second = None if layout.second is None else columns[layout.second]
        examples.append(_example(columns[layout.first], second, label, place))
    return _found(examples, 0, path)


def read_records(
    path: str | Path,
    *,
    fields: FieldNames | None = None,
    labels: Sequence[str] | None = None,
    numeric: bool = False,
) -> list[Example]:
    """Read a file with one json object a line.

    Args:
        path: The file, plain or compressed.
        fields: What they are called; premise and hypothesis, sentence1 and sentence2, sentence, or text, if not given.
        labels: The only ones to be expected.
        numeric: Whether the labels are numbers to predict, rather than classes.

    Raises:
        InputError: It cannot be read, is empty, or a line is not what it should be.
    """
    return _from_records(_json_records(Path(path)), path, fields, labels, numeric=numeric)


def read_data_set(
    name: str,
    *,
    fields: FieldNames | None = None,
    labels: Sequence[str] | None = None,
    numeric: bool = False,
) -> list[Example]:
    """Read a data set of the Hub, classes by their names; examples without a label (-1) are left out.

    Args:
        name: `hf:NAME`, `hf:NAME:CONFIG` or `hf:NAME:CONFIG:SPLIT`; the split `train` if not given.
        fields: As for `read_records`.
        labels: The only ones to be expected.
        numeric: Whether the labels are numbers to predict, rather than classes.

    Raises:
        InputError: There is no such data set, or a record is not what it should be.
        MissingExtra: The package datasets is not installed.
    """
    parts = name.removeprefix("hf:").split(":")
    if not name.startswith("hf:") or not parts[0] or len(parts) > 3:
        raise InputError(f"{name} is not a Hub data set: give hf:NAME, hf:NAME:CONFIG or hf:NAME:CONFIG:SPLIT")
    path, config, split = [*parts, "", ""][:3]
    try:
        from datasets import load_dataset
    except ImportError as error:
        raise MissingExtra("datasets", f"reading {name}", "corpora") from error
    try:
        data_set = load_dataset(path, config or None, split=split or "train")
    except (OSError, ValueError, RuntimeError) as error:
        raise InputError(
            f"{name} cannot be opened ({error}): give hf:NAME, hf:NAME:CONFIG or hf:NAME:CONFIG:SPLIT"
        ) from error
    classes = {
        field: feature.names for field, feature in (data_set.features or {}).items() if hasattr(feature, "int2str")
    }
    records = (
        (f"{name}, record {number},", _with_class_names(record, classes))
        for number, record in enumerate(data_set, start=1)
    )
    return _from_records(records, name, fields, labels, numeric=numeric)


def _with_class_names(record: Mapping[str, Any], classes: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """A record with names in place of the numbers of classes; -1 stands for no label."""

    def named(field: str, value: Any) -> Any:
        known = field in classes and isinstance(value, int) and 0 <= value < len(classes[field])
        return classes[field][value] if known else NO_AGREEMENT if field in classes and value == -1 else value

    return {field: named(field, value) for field, value in record.items()}


def _from_records(
    records: Iterator[tuple[str, Mapping[str, Any]]],
    source: str | Path,
    fields: FieldNames | None,
    labels: Sequence[str] | None,
    *,
    numeric: bool,
) -> list[Example]:
    examples, skipped = [], 0
    for place, record in records:
        fields = fields or _guess_fields(record, place)
        for field in filter(None, (fields.first, fields.second, fields.label)):
            if field not in record:
                raise InputError(
                    f"{place} has no field {field!r}, only {', '.join(map(str, record))}: name the fields to read"
                )
        if record[fields.label] == NO_AGREEMENT:
            skipped += 1
            continue
        label = _label(record[fields.label], labels, place, numeric=numeric)
        second = None if fields.second is None else _text(record, fields.second, place)
        examples.append(_example(_text(record, fields.first, place), second, label, place))
    return _found(examples, skipped, source)


def _guess_fields(record: Mapping[str, Any], place: str) -> FieldNames:
    for names in KNOWN_FIELDS:
        if names.first in record and (names.second is None or names.second in record):
            return names
    raise InputError(
        f"{place} has the fields {', '.join(map(str, record))}, and none of them is known as a text "
        "(premise and hypothesis, sentence1 and sentence2, sentence, text): name the fields to read"
    )


def _json_records(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for number, line in _lines(path):
        if not line.strip():
            continue
        place = f"{path}, line {number},"
        try:
            record = json.loads(line)
        except ValueError as error:
            raise InputError(f"{place} is not json ({error}): each line must be one object") from error
        if not isinstance(record, dict):
            raise InputError(f"{place} holds a {type(record).__name__}: each line must be one json object")
        yield place, record


def _text(record: Mapping[str, Any], field: str, place: str) -> str:
    text = record[field]
    if not isinstance(text, str):
        raise InputError(f"{place} has a {type(text).__name__} in the field {field!r}: name a field that holds text")
    return text


def _label(value: Any, labels: Sequence[str] | None, place: str, *, numeric: bool) -> str | float:
    """A class by its name, or a number."""
    if numeric:
        return _number(value, place)
    if not isinstance(value, str | int):
        raise InputError(f"{place} has the label {value!r}: give the name or the number of a class")
    label = str(value)
    _check_label(label, labels, place)
    return label


def _number(value: Any, place: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise InputError(f"{place} has {value!r} where a number is expected: correct the line, or leave it out")
    return number


def _check_label(label: str, labels: Sequence[str] | None, place: str) -> None:
    if not label or label.isspace():
        raise InputError(f"{place} has no label: correct the line, or leave it out")
    if labels is not None and label not in labels:
        raise InputError(f"{place} has the unknown label {label!r}: give one of {', '.join(labels)}")


def _example(first: str, second: str | None, label: str | float, place: str) -> Example:
    if not (first.strip() or (second or "").strip()):
        raise InputError(f"{place} holds no text: correct the line, or leave it out")
    return Example(encodable(first)[0], None if second is None else encodable(second)[0], label)


def _found(examples: list[Example], skipped: int, source: str | Path) -> list[Example]:
    if not examples:
        reason = f"all {skipped} examples of {source} are without a label" if skipped else f"{source} is empty"
        raise InputError(f"{reason}: give a file with labelled examples")
    if skipped:
        logger.warning(
            "%d of %d examples of %s have no label and are left out", skipped, skipped + len(examples), source
        )
    return examples


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the columns of the lines that are not empty, with their numbers."""
    return ((number, line.split("\t")) for number, line in _lines(path) if line.strip())


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    return enumerate(chain.from_iterable(read_blocks(path.expanduser())), start=1)


def _kind(path: Path) -> str:
    """The ending of the name that tells the format, below that of a compression."""
    return Path(path.stem).suffix.lower() if path.suffix.lower() in COMPRESSIONS else path.suffix.lower()


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
