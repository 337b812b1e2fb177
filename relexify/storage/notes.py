"""Read `relexify.json`, the notes of a folder that relexify wrote: its content, and how it was made."""

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
"""The entry with the fingerprints of the runs whose result a folder is, by name."""
REVISIONS = "revisions"
"""The entry with the revisions of the code that made it, by the name of the run."""
_OWN = (FINISHED, REVISIONS, "documents")
"""Entries about a folder itself, which one that is made from it does not take over."""

Record = TypeVar("Record")

Notes = Mapping[str, Any]
"""The content of a `relexify.json`, by entry; each entry that is read was validated (`notes_schema.py`)."""


def read_notes(folder: str | Path) -> dict[str, Any]:
    """Return what `relexify.json` in a folder says; empty if there is none.

    Raises:
        InputError: It is damaged; the message names the key that is wrong.
    """
    path = Path(folder) / MARKER
    return check_notes(read_json(path), path) if path.is_file() else {}


def read_entry(folder: str | Path, name: str) -> Any:
    """Return an entry of `relexify.json` in a folder that was written with one.

    Raises:
        InputError: As `read_notes`; or the entry is missing.
    """
    notes = read_notes(folder)
    if notes.get(name) is None:
        raise InputError(f"{Path(folder) / MARKER}: {name} is missing: restore the file, or write the folder again")
    return notes[name]


def read_as(record: type[Record], entry: Mapping[str, Any]) -> Record:
    """Return a validated entry as the dataclass that it was written from; keys that it does not have are left out."""
    known = {each.name for each in fields(record)}  # type: ignore[arg-type]
    return record(**{name: value for name, value in entry.items() if name in known})


def recorded_command(notes: Notes) -> Mapping[str, Any]:
    """Return the options of the command that wrote a model, such as a transfer; empty if they are not recorded."""
    command: Mapping[str, Any] = (notes.get("provenance") or {}).get("command", {})
    return command


def output_notes(folder: str | Path) -> dict[str, Any]:
    """Return the notes of an output; empty if they are damaged, so that it counts as the output of another run."""
    try:
        return read_notes(folder)
    except InputError:
        return {}


def finished_run(folder: str | Path, name: str) -> str | None:
    """Return the fingerprint of the run of this name whose result a folder is; None if there is no such run."""
    finished = output_notes(folder).get(FINISHED)
    found = finished.get(name) if isinstance(finished, dict) else None
    return found if isinstance(found, str) else None


def inherited_notes(folder: str | Path) -> dict[str, Any]:
    """Return the notes of a folder for one that is made from it, without what is about the folder itself.

    Raises:
        InputError: As `read_notes`.
    """
    return {name: note for name, note in read_notes(folder).items() if name not in _OWN}
