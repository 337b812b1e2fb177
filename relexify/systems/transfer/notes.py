"""What a transfer writes into `relexify.json`, the description of its graft included.

`relexify.grafting` cannot describe the graft itself: its import takes torch, and notes are read before that.
"""

from __future__ import annotations

from relexify.storage.notes_schema import NOTES, NotesEntry
from relexify.storage.shapes import (
    COUNT,
    FLAG,
    NUMBER,
    OBJECT,
    TEXT,
    ObjectShape,
    OptionalShape,
    Shape,
    list_of,
    map_of,
    object_of,
    pair_of,
)
from relexify.systems.transfer.assessment.start import START_ENTRIES

__all__: list[str] = []

_GRAFT = object_of(
    tokens=COUNT,
    rows=COUNT,
    origins=map_of(COUNT),
    lexical=list_of(TEXT),
    special_ids=OBJECT,
    roles=map_of(COUNT),
    tied=FLAG,
)
_VERDICT = object_of(
    start=TEXT, finding=TEXT, details=list_of(TEXT), changes=map_of(OptionalShape(TEXT)), is_needed=FLAG
)
_UNIGRAM_PRIOR = object_of(changed=TEXT, tokens=COUNT, bits_before=NUMBER, bits_after=NUMBER)
_TOKENS = list_of(pair_of(TEXT, COUNT))


def _add(name: str, shape: Shape) -> None:
    """Register an entry that may be null."""
    NOTES.add(name, NotesEntry(OptionalShape(shape)))


NOTES.add("graft", NotesEntry(_GRAFT, needs="method"))
NOTES.add("method", NotesEntry(TEXT))
for _entry in START_ENTRIES:
    NOTES.add(_entry.key, NotesEntry(_entry.shape, _entry.needs))
_add("verdict", _VERDICT)
_add("unigram_prior", _UNIGRAM_PRIOR)
_add("system_prompt", TEXT)
_add("samples", list_of(ObjectShape({"source": _TOKENS, "target": _TOKENS}, {"is_cut": FLAG})))
_add("pruned", object_of(removed=COUNT))
