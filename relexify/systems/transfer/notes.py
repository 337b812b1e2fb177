"""What a transfer writes into `relexify.json`, the description of its graft included.

`relexify.grafting` cannot describe the graft itself: its import takes torch, and notes are read before that.
"""

from __future__ import annotations

from relexify.storage.notes_schema import NOTES, NotesEntry
from relexify.storage.shapes import (
    COUNT,
    FLAG,
    LENGTH,
    NUMBER,
    OBJECT,
    POSITIVE,
    SHARE,
    TEXT,
    ObjectShape,
    OptionalShape,
    Shape,
    list_of,
    map_of,
    object_of,
    pair_of,
)

__all__: list[str] = []

_SCORES = map_of(NUMBER)
_GRAFT = object_of(
    tokens=COUNT,
    rows=COUNT,
    origins=map_of(COUNT),
    lexical=list_of(TEXT),
    special_ids=OBJECT,
    roles=map_of(COUNT),
    tied=FLAG,
)
_QUALITY = object_of(precision=SHARE, csls_precision=SHARE, words=POSITIVE)
_ALIGNMENT = object_of(pairs_used=COUNT, coverage=NUMBER, quality=OptionalShape(_QUALITY))
_TEXT_COVERAGE = ObjectShape(
    {
        "bytes": COUNT,
        "words": POSITIVE,
        "unit": TEXT,
        "source_tokens": COUNT,
        "target_tokens": COUNT,
        "origins": map_of(NUMBER),
    },
    {"whole_bytes": OptionalShape(COUNT)},
)
_DICTIONARY_CHECK = ObjectShape(
    {"tokens": COUNT, "text_share": NUMBER, "words": COUNT, "related": OptionalShape(NUMBER)},
    {"entries": COUNT, "frequent": COUNT, "matches": COUNT, "examples": list_of(TEXT)},
)
_BITEXT_CHECK = ObjectShape(
    {"pairs": COUNT, "tokens": COUNT, "text_share": NUMBER},
    {"overlap": OptionalShape(NUMBER), "shared": OptionalShape(COUNT)},
)
_EXTENSION = object_of(
    added=COUNT,
    tokens_per_byte=list_of(pair_of(COUNT, LENGTH), least=1),
    source_tokens=COUNT,
    source_added=COUNT,
    source_bits_per_byte=_SCORES,
)
_VERDICT = object_of(
    start=TEXT, finding=TEXT, details=list_of(TEXT), changes=map_of(OptionalShape(TEXT)), is_needed=FLAG
)
_UNIGRAM_PRIOR = object_of(changed=TEXT, tokens=COUNT, bits_before=NUMBER, bits_after=NUMBER)
_TOKENS = list_of(pair_of(TEXT, COUNT))


def _add(name: str, shape: Shape, *, needs: str = "") -> None:
    """Register an entry that may be null."""
    NOTES.add(name, NotesEntry(OptionalShape(shape), needs))


NOTES.add("graft", NotesEntry(_GRAFT, needs="method"))
NOTES.add("method", NotesEntry(TEXT))
NOTES.add("fallback", NotesEntry(TEXT))
NOTES.add("trained_vocabulary", NotesEntry(FLAG))
_add("alignment", _ALIGNMENT)
_add("bits_per_byte_before_training", _SCORES)
_add("held_out_text", _TEXT_COVERAGE, needs="graft")
_add("dictionary_check", _DICTIONARY_CHECK)
_add("bitext_check", _BITEXT_CHECK)
_add("not_scored", TEXT)
_add("extension", _EXTENSION)
_add("corpus_bytes", COUNT)
_add("given_evidence", list_of(TEXT))
_add("verdict", _VERDICT)
_add("unigram_prior", _UNIGRAM_PRIOR)
_add("system_prompt", TEXT)
_add("samples", list_of(ObjectShape({"source": _TOKENS, "target": _TOKENS}, {"is_cut": FLAG})))
_add("pruned", object_of(removed=COUNT))
