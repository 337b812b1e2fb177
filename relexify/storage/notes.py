"""Read `relexify.json`, the notes of a folder that relexify wrote: they describe its content and how it was made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

from relexify.errors import InputError
from relexify.storage.files import MARKER
from relexify.storage.json import read_json
from relexify.storage.notes_schema import check_notes

__all__ = [
    "FINISHED",
    "REVISIONS",
    "Notes",
    "finished_run",
    "inherited_notes",
    "output_notes",
    "read_as",
    "read_entry",
    "read_notes",
    "recorded_command",
]

FINISHED = "finished"
"""The entry with the fingerprint of each run that produced the folder, by the name of the run."""
REVISIONS = "revisions"
"""The entry with the revisions of the code that made the folder, by the name of the run."""
_OWN = (FINISHED, REVISIONS, "documents")
"""Entries about a folder itself; a folder made from it does not inherit them."""

Record = TypeVar("Record")

Notes = Mapping[str, Any]
"""The content of a `relexify.json`, by entry; each entry that is read was validated (`notes_schema.py`)."""


def read_notes(folder: str | Path) -> dict[str, Any]:
    """Return the content of `relexify.json` in a folder; empty if there is no such file.

    Raises:
        InputError: The file is damaged; the message names the wrong key.
    """
    path = Path(folder) / MARKER
    return check_notes(read_json(path), path) if path.is_file() else {}


def read_entry(folder: str | Path, name: str) -> Any:
    """Return an entry that `relexify.json` in a folder must have.

    Raises:
        InputError: As for `read_notes`, or the entry is missing.
    """
    notes = read_notes(folder)
    if notes.get(name) is None:
        raise InputError(f"{Path(folder) / MARKER}: {name} is missing: restore the file, or write the folder again")
    return notes[name]


def read_as(record: type[Record], entry: Mapping[str, Any]) -> Record:
    """Return a validated entry as the dataclass that it was written from; keys without a field are ignored."""
    known = {each.name for each in fields(record)}  # type: ignore[arg-type]
    return record(**{name: value for name, value in entry.items() if name in known})


def recorded_command(notes: Notes) -> Mapping[str, Any]:
    """Return the options of the command that wrote a model, such as a transfer; empty if they are not recorded."""
    command: Mapping[str, Any] = (notes.get("provenance") or {}).get("command", {})
    return command


def output_notes(folder: str | Path) -> dict[str, Any]:
    """Return the notes of an output; if they are damaged, empty notes, so that it counts as another run's output."""
    try:
        return read_notes(folder)
    except InputError:
        return {}


def finished_run(folder: str | Path, name: str) -> str | None:
    """Return the fingerprint of the run of this name that produced a folder; None if there is no such run."""
    finished = output_notes(folder).get(FINISHED)
    found = finished.get(name) if isinstance(finished, dict) else None
    return found if isinstance(found, str) else None


def inherited_notes(folder: str | Path) -> dict[str, Any]:
    """Return the notes that a new folder inherits from the folder it is made from, without `_OWN` entries.

    Raises:
        InputError: As for `read_notes`.
    """
    return {name: note for name, note in read_notes(folder).items() if name not in _OWN}
