"""What TreLM writes into `relexify.json`."""

from __future__ import annotations

from relexify.storage.notes_schema import NOTES, NotesEntry
from relexify.storage.shapes import (
    COUNT,
    FLAG,
    NUMBER,
    POSITIVE,
    TEXT,
    ObjectShape,
    OptionalShape,
    list_of,
    map_of,
    object_of,
)

__all__: list[str] = []

_SCORE = ObjectShape(
    {"task": TEXT, "metric": TEXT, "value": NUMBER, "higher_is_better": FLAG, "examples": COUNT}, {"unit": TEXT}
)
"""The fields of `relexify.scoring.Score`."""
_TRELM = object_of(until=TEXT, phases=list_of(_SCORE), translation=list_of(_SCORE))

NOTES.add("trelm", NotesEntry(OptionalShape(_TRELM)))
NOTES.add("held_out", NotesEntry(map_of(object_of(tokens=POSITIVE, bytes=COUNT))))
