"""Records of a file with one json object per line, or of a Hub data set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from relexify.text.decoding import JSON_SUFFIXES, format_suffix
from relexify.text.records import open_hub_data_set, read_json_lines
from relexify.text.remote import is_hub_data_set

__all__ = ["NO_LABEL", "holds_records", "iterate_records"]

NO_LABEL = "-"
"""The mark of an example without a label, such as a pair in SNLI and MNLI on which the annotators did not agree."""


def holds_records(source: str | Path) -> bool:
    """Whether a source contains json records or is a Hub data set, judging by its name."""
    return is_hub_data_set(source) or format_suffix(Path(source)) in JSON_SUFFIXES


def iterate_records(source: str | Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the records of a file with one json object per line, or of a Hub data set, with locations for messages.

    Args:
        source: The file, plain or compressed, or `hf:NAME[:CONFIG[:SPLIT]]`.

    Raises:
        InputError: The source cannot be read.
        MissingExtra: A package that reading needs is not installed.
    """
    if is_hub_data_set(source):
        yield from _data_set_records(str(source))
        return
    yield from read_json_lines(Path(source).expanduser())


def _data_set_records(name: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Open a data set of the Hub, and return its records, with names of classes in place of numbers."""
    data_set = open_hub_data_set(name, streaming=False)
    classes = {
        field: feature.names for field, feature in (data_set.features or {}).items() if hasattr(feature, "int2str")
    }
    return (
        (
            f"{name}, record {number},",
            {field: _class_name(value, classes.get(field)) for field, value in record.items()},
        )
        for number, record in enumerate(data_set, start=1)
    )


def _class_name(value: object, classes: Sequence[str] | None) -> object:
    """Return the name of a class by its number; values of other fields are returned unchanged."""
    if classes is None or not isinstance(value, int):
        return value
    if value == -1:  # the convention for a missing label in Hub data sets
        return NO_LABEL
    return classes[value] if 0 <= value < len(classes) else value
