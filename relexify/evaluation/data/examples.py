"""Labelled texts and pairs of texts: NLI as tab-separated lines, GLUE files, json records, Hub data sets.

Every reader returns `Example`s in the order of the file; for an invalid line, it raises an error with the line number.
Quotes are ordinary characters, because none of these formats has escapes.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from relexify.errors import InputError
from relexify.evaluation.data.records import NO_LABEL, holds_records, iterate_records
from relexify.progress import count_of
from relexify.text import make_encodable
from relexify.text.decoding import read_blocks

__all__ = [
    "NLI_LABELS",
    "Example",
    "FieldNames",
    "GlueFormat",
    "read_examples",
    "read_glue",
    "read_nli",
    "read_records",
]

NLI_LABELS = ("contradiction", "entailment", "neutral")
_NLI_NAMES = {label: label for label in NLI_LABELS} | {"contradictory": "contradiction"}
"""The class of every label; the translated training files of XNLI write `contradictory`."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Example:
    """A text or a pair of texts, with its label.

    Attributes:
        first: The text, or the premise.
        second: The hypothesis, or the other sentence of a pair; None for a single text.
        label: The name of a class, or a number if the task is to predict numbers.
    """

    first: str
    second: str | None
    label: str | float


@dataclass(frozen=True)
class FieldNames:
    """The names of the fields of a record.

    Attributes:
        first: The field of the text, or of the premise.
        second: The field of the other text; None for single texts.
        label: The field of the label.
    """

    first: str
    second: str | None
    label: str = "label"


@dataclass(frozen=True)
class GlueFormat:
    """How the examples of a GLUE task are distributed: as tab-separated files, and as records on the Hub.

    Attributes:
        columns: The columns to read from the files, by their names in the header.
        labels: All classes as named in the files; None if labels are numbers.
        fields: The fields of a record.
        names: All classes as named in records, in the order of `labels`; by default, `labels`. The label of a record
            may also be the position of a class.
        header: All columns, for files without a header line; None if the first line is the header.
        skips_incomplete: Whether to skip lines with too few columns; otherwise, they are an error.
    """

    columns: FieldNames
    labels: tuple[str, ...] | None
    fields: FieldNames
    names: tuple[str, ...] | None = None
    header: tuple[str, ...] | None = None
    skips_incomplete: bool = False

    @property
    def record_labels(self) -> dict[str, str] | None:
        """The class of every label that a record may have; None if labels are numbers."""
        if self.labels is None:
            return None
        positions = {str(position): label for position, label in enumerate(self.labels)}
        return positions | dict(zip(self.names or self.labels, self.labels, strict=True))


KNOWN_FIELDS = (
    FieldNames("premise", "hypothesis"),
    FieldNames("sentence1", "sentence2"),
    FieldNames("question", "sentence"),
    FieldNames("question1", "question2"),
    FieldNames("sentence", None),
    FieldNames("text", None),
)
"""The fields that are recognised if none are specified; pairs come first."""


def read_examples(source: str | Path) -> list[Example]:
    """Read a Hub data set (`hf:…`), json records (`.jsonl`) or tab-separated lines of NLI; the name tells which.

    Args:
        source: A file, plain or compressed, or `hf:NAME[:CONFIG[:SPLIT]]`.

    Raises:
        InputError: The source cannot be read, or a line is invalid.
        MissingExtra: A package that reading needs is not installed.
    """
    if holds_records(source):
        return read_records(source)
    return read_nli(source)


def read_nli(path: str | Path) -> list[Example]:
    """Read tab-separated lines of premise, hypothesis, label and optionally a source.

    A header and pairs without an agreed label (`-`) are skipped. The file may be compressed.

    Raises:
        InputError: The file cannot be read, is empty, or a line is invalid.
    """
    path, examples, skipped = Path(path), [], 0
    for number, columns in _rows(path):
        where = f"{path}, line {number},"
        if len(columns) not in (3, 4):
            raise InputError(
                f"{where} has {_count_columns(columns)}: "
                "each line must have premise, hypothesis, label and optionally a source, separated by tabs"
            )
        if number == 1 and columns[2] in ("label", "gold_label"):
            continue
        if columns[2] == NO_LABEL:
            skipped += 1
            continue
        label = _label(columns[2], _NLI_NAMES, where, numeric=False)
        examples.append(_example(columns[0], columns[1], label, where))
    return _check_examples(examples, skipped, path)


def read_glue(source: str | Path, task: str, layout: GlueFormat) -> list[Example]:
    """Read labelled examples of a GLUE task; examples without a label (`-`, or -1 on the Hub) are skipped.

    Args:
        source: A tab-separated file with labels, in GLUE's format; or json records or a Hub data set, with the fields
            of GLUE on the Hub.
        task: The name of the task, for messages.
        layout: The format of the task.

    Raises:
        InputError: The source cannot be read, or does not belong to the task.
    """
    numeric = layout.labels is None
    if holds_records(source):
        return read_records(source, fields=layout.fields, labels=layout.record_labels, numeric=numeric)
    path = Path(source)
    rows = _rows(path)
    header = layout.header or next((tuple(columns) for _, columns in rows), ())
    if not header:
        raise InputError(f"{path} is empty: give a file with examples")
    expected = layout.columns
    names = [name for name in (expected.first, expected.second, expected.label) if name is not None]
    if missing := [name for name in names if name not in header]:
        raise InputError(
            f"{path} has no column {' or '.join(missing)} of {task}; it begins with {', '.join(header)[:100]}: "
            "give a file of the task with labels, such as its train.tsv or dev.tsv (test.tsv has none)"
        )
    examples, unlabelled, incomplete = [], 0, 0
    for number, columns in rows:
        where = f"{path}, line {number},"
        if len(columns) < len(header) and layout.skips_incomplete:
            incomplete += 1
            continue
        if len(columns) != len(header):
            raise InputError(
                f"{where} has {_count_columns(columns)}, but {task} has {len(header)}: "
                "download the file again, or check which task it belongs to"
            )
        row = dict(zip(header, columns, strict=True))
        if row[expected.label] == NO_LABEL:
            unlabelled += 1
            continue
        label = _label(row[expected.label], layout.labels, where, numeric=numeric)
        second = None if expected.second is None else row[expected.second]
        examples.append(_example(row[expected.first], second, label, where))
    if incomplete:
        lines = count_of(incomplete, "line", "lines")
        verb = "has" if incomplete == 1 else "have"
        logger.warning("%s of %s %s too few columns and are skipped", lines, path, verb)
    return _check_examples(examples, unlabelled, path)


def read_records(
    source: str | Path,
    *,
    fields: FieldNames | None = None,
    labels: Collection[str] | None = None,
    numeric: bool = False,
) -> list[Example]:
    """Read a file with one json object per line, or a Hub data set; records without a label are skipped.

    Args:
        source: The file, plain or compressed, or `hf:NAME[:CONFIG[:SPLIT]]`.
        fields: The fields to read; by default, the first of `KNOWN_FIELDS` that the first record has.
        labels: The valid labels; a mapping also gives the class of each label.
        numeric: Whether the labels are numbers to predict, rather than classes.

    Raises:
        InputError: The source cannot be read, is empty, or a record is invalid.
        MissingExtra: A package that reading needs is not installed.
    """
    examples, skipped = [], 0
    for where, record in iterate_records(source):
        fields = fields or _guess_fields(record, where)
        for field in filter(None, (fields.first, fields.second, fields.label)):
            if field not in record:
                raise InputError(
                    f"{where} has no field {field!r}, only {', '.join(map(str, record))}: name the fields to read"
                )
        if record[fields.label] == NO_LABEL:
            skipped += 1
            continue
        label = _label(record[fields.label], labels, where, numeric=numeric)
        second = None if fields.second is None else _text(record, fields.second, where)
        examples.append(_example(_text(record, fields.first, where), second, label, where))
    return _check_examples(examples, skipped, source)


def _guess_fields(record: Mapping[str, Any], where: str) -> FieldNames:
    """Return the first of `KNOWN_FIELDS` that a record has; reject it if other fields may belong to the task."""
    for names in KNOWN_FIELDS:
        if names.first in record and (names.second is None or names.second in record):
            break
    else:
        known = ", ".join(" and ".join(filter(None, (names.first, names.second))) for names in KNOWN_FIELDS)
        raise InputError(
            f"{where} has the fields {', '.join(map(str, record))}, but none of the known fields for texts "
            f"({known}): rename the fields to read"
        )
    # If a question or context were ignored, scores would look plausible, but be meaningless. Identifiers, dates and
    # tags can be ignored; they are ASCII without spaces.
    others = [
        name
        for name, value in record.items()
        if isinstance(value, str) and name not in (names.first, names.label) and (" " in value or not value.isascii())
    ]
    if names.second is None and others:
        raise InputError(
            f"{where} has the text {names.first!r} and also {', '.join(map(repr, others))}: if the task is about "
            "pairs, rename the two texts to sentence1 and sentence2; otherwise, remove the other fields"
        )
    return names


def _text(record: Mapping[str, Any], field: str, where: str) -> str:
    text = record[field]
    if not isinstance(text, str):
        raise InputError(f"{where} has a {type(text).__name__} in the field {field!r}: name a field with text")
    return text


def _label(value: Any, labels: Collection[str] | None, where: str, *, numeric: bool) -> str | float:
    """Return the name of a class, or a finite number."""
    if numeric:
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if not math.isfinite(number):
            raise InputError(f"{where} has the label {value!r}, but the task needs a number: correct this line")
        return number
    if not isinstance(value, str | int):
        raise InputError(f"{where} has the label {value!r}: give the name or the number of a class")
    label = str(value)
    if not label or label.isspace():
        raise InputError(f"{where} has no label: correct the line, or leave it out")
    if labels is not None and label not in labels:
        raise InputError(f"{where} has the unknown label {label!r}: give one of {', '.join(labels)}")
    return str(labels[label]) if isinstance(labels, Mapping) else label


def _example(first: str, second: str | None, label: str | float, where: str) -> Example:
    """Return an example whose texts every tokenizer accepts."""
    if not (first.strip() or (second or "").strip()):
        raise InputError(f"{where} holds no text: correct the line, or leave it out")
    return Example(make_encodable(first), None if second is None else make_encodable(second), label)


def _check_examples(examples: list[Example], skipped: int, source: str | Path) -> list[Example]:
    if not examples:
        reason = f"all {skipped} examples of {source} have no label" if skipped else f"{source} is empty"
        raise InputError(f"{reason}: give a file with labelled examples")
    if skipped:
        total = skipped + len(examples)
        logger.warning("%d of %d examples of %s have no label and are skipped", skipped, total, source)
    return examples


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the columns of every line that is not blank, with its number from 1."""
    lines = chain.from_iterable(read_blocks(path.expanduser()))
    return ((number, line.split("\t")) for number, line in enumerate(lines, start=1) if line.strip())


def _count_columns(columns: Sequence[str]) -> str:
    return count_of(len(columns), "column")
