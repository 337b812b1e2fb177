"""The entries that a compression writes into `relexify.json`."""

from __future__ import annotations

from relexify.storage.notes_schema import NOTES, NotesEntry
from relexify.storage.shapes import COUNT, NUMBER, OptionalShape, object_of

__all__: list[str] = []

_COMPRESSION = object_of(error=OptionalShape(NUMBER), embedding_before=COUNT, embedding_after=COUNT)

NOTES.add("compression", NotesEntry(OptionalShape(_COMPRESSION)))
