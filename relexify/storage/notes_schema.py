"""Validate the content of `relexify.json`: if someone has edited it, the message names the wrong key.

A package that writes entries registers their shapes in its module `notes.py`, which imports neither torch nor
transformers, because notes are read before they are imported. Only entries that relexify reads again are registered.
Other keys are kept: a later version may have written them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from relexify.errors import InputError
from relexify.registry import Registry
from relexify.storage.shapes import (
    OBJECT,
    TEXT,
    Mismatch,
    ObjectShape,
    OptionalShape,
    Shape,
    at_key,
    describe_value,
    list_of,
    map_of,
)

__all__ = ["NOTES", "NotesEntry", "check_notes"]


@dataclass(frozen=True)
class NotesEntry:
    """An entry of `relexify.json`.

    Attributes:
        shape: The shape of its value.
        needs: Another entry that must exist if this one does; empty if there is none.
    """

    shape: Shape
    needs: str = ""


NOTES: Registry[NotesEntry] = Registry("entry of relexify.json")
"""The entries that relexify reads again."""


def check_notes(notes: object, path: Path) -> dict[str, Any]:
    """Validate the content of a `relexify.json`, and return it.

    Args:
        notes: The parsed content; None if it is not JSON.
        path: The file, for messages.

    Raises:
        InputError: The content is not an object, or an entry has a wrong shape; the message names the key.
    """
    try:
        if not isinstance(notes, dict):
            raise Mismatch("its content", "not valid JSON" if notes is None else describe_value(notes), "an object")
        for key, entry in NOTES.items():
            if key in notes:
                at_key(key, entry.shape, notes[key])
        for key, entry in NOTES.items():
            if entry.needs and notes.get(key) is not None and entry.needs not in notes:
                raise Mismatch(entry.needs, "", f"an entry beside {key}")
        earlier = notes.get("provenance")
        while earlier:  # the provenance of the model, then of the model that it was made from, and so on
            at_key("provenance", _PROVENANCE, earlier)
            earlier = earlier.get("source")
    except Mismatch as error:
        problem = f"{error.key} is {error.found}" if error.found else f"{error.key} is missing"
        raise InputError(
            f"{path}: {problem}, but {error.expected} is expected: correct the file, or write the folder again"
        ) from error
    return notes


_PROVENANCE = ObjectShape(
    {},
    {
        "command": ObjectShape({}, {"language": OptionalShape(TEXT), "options": OptionalShape(OBJECT)}),
        "inputs": map_of(TEXT),
        "source": OptionalShape(OBJECT),
    },
)

NOTES.add("files", NotesEntry(list_of(TEXT)))
NOTES.add("documents", NotesEntry(map_of(TEXT)))
NOTES.add("provenance", NotesEntry(OptionalShape(_PROVENANCE)))
