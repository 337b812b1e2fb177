"""Read records: files with one json object per line, and data sets of the Hub."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from relexify.errors import InputError, importing
from relexify.storage.json import parse_json
from relexify.text.decoding import read_blocks
from relexify.text.remote import parse_hub_name

__all__ = ["open_hub_data_set", "parse_record", "read_json_lines"]


def read_json_lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the records of a file, each with its location for messages; blank lines are skipped.

    Raises:
        InputError: The file cannot be read, or a line is not a json object.
    """
    for number, line in enumerate(chain.from_iterable(read_blocks(path)), start=1):
        if line and not line.isspace():
            location = f"{path}, line {number},"
            yield location, parse_record(line, location)


def parse_record(line: str, location: str) -> dict[str, Any]:
    """Parse one line of json; the location is for messages.

    Raises:
        InputError: The line is not a json object.
    """
    try:
        record = parse_json(line)
    except ValueError as error:
        raise InputError(
            f"{location} is not json ({error}): each line must be one object, as `jq -c '.[]'` writes them"
        ) from error
    if not isinstance(record, dict):
        raise InputError(f"{location} holds a {type(record).__name__}: each line must be one json object")
    return record


def open_hub_data_set(name: str, *, streaming: bool) -> Any:
    """Open a data set of the Hub with the package datasets.

    Args:
        name: `hf:NAME[:CONFIG[:SPLIT]]`.
        streaming: Download records while they are read, instead of downloading all of them first.

    Raises:
        InputError: The data set cannot be opened.
        MissingExtra: The package datasets is not installed.
    """
    path, config, split = parse_hub_name(name)
    with importing("datasets", f"reading {name}", "corpora"):
        from datasets import load_dataset
    try:
        return load_dataset(path, config, split=split, streaming=streaming)
    except (OSError, ValueError, RuntimeError) as error:
        raise InputError(
            f"{name} cannot be opened ({error}): give hf:NAME, hf:NAME:CONFIG or hf:NAME:CONFIG:SPLIT"
        ) from error
