"""Labelled texts as records: json lines, and data sets of the Hub."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from relexify.errors import InputError, MissingExtra
from relexify.evaluation.data.labelled_texts import (
    NO_AGREEMENT,
    Example,
    example_of,
    found_examples,
    label_of,
    numbered_lines,
)

__all__ = ["FieldNames", "read_data_set", "read_records"]


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
        label = label_of(record[fields.label], labels, place, numeric=numeric)
        second = None if fields.second is None else _text(record, fields.second, place)
        examples.append(example_of(_text(record, fields.first, place), second, label, place))
    return found_examples(examples, skipped, source)


def _guess_fields(record: Mapping[str, Any], place: str) -> FieldNames:
    for names in KNOWN_FIELDS:
        if names.first in record and (names.second is None or names.second in record):
            return names
    raise InputError(
        f"{place} has the fields {', '.join(map(str, record))}, and none of them is known as a text "
        "(premise and hypothesis, sentence1 and sentence2, sentence, text): name the fields to read"
    )


def _json_records(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for number, line in numbered_lines(path):
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
