"""The entries that a training writes into `relexify.json`."""

from __future__ import annotations

from relexify.storage.notes_schema import NOTES, NotesEntry
from relexify.storage.shapes import COUNT, FLAG, NUMBER, OBJECT, TEXT, ObjectShape, OptionalShape, list_of, object_of

__all__: list[str] = []

_TRAINING = ObjectShape(
    {
        "selected_step": COUNT,
        "tokens_seen": COUNT,
        "seconds": NUMBER,
        "tokens_per_second": OptionalShape(NUMBER),
        "length": COUNT,
        "learning_rate": OptionalShape(NUMBER),
        "stages": list_of(OBJECT),
        "snapshots": list_of(COUNT),
    },
    {
        "command": OptionalShape(object_of(options=OBJECT)),
        "resumed": FLAG,
        "from_trained": FLAG,
        "new_text_steps": COUNT,
    },
)

NOTES.add("training", NotesEntry(OptionalShape(_TRAINING)))
NOTES.add("selected", NotesEntry(COUNT))
NOTES.add("trained_from", NotesEntry(TEXT))
NOTES.add("head_added_to", NotesEntry(TEXT))
