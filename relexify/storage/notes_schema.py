"""What the entries of `relexify.json` are, so that a file that somebody edited is rejected with the key that is wrong.

Only what relexify reads again is listed. Keys that are not listed are kept: a later version may have written them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

from relexify.errors import InputError

__all__ = ["check_notes"]

_LARGEST = 2**63 - 1


class _Mismatch(Exception):
    """A value that is not what its key needs; the key is extended on the way up."""

    def __init__(self, key: str, found: str, expected: str) -> None:
        super().__init__(key)
        self.key, self.found, self.expected = key, found, expected


_Shape = Callable[[object], None]
"""Validates a value; raises `_Mismatch`."""


def check_notes(notes: object, path: Path) -> dict[str, Any]:
    """Return the content of a `relexify.json` after validating it.

    Args:
        notes: As it was read.
        path: The file, for messages.

    Raises:
        InputError: It is not an object, or an entry is not what it should be; the message names the key.
    """
    try:
        if not isinstance(notes, dict):
            raise _Mismatch("its content", "not valid JSON" if notes is None else _described(notes), "an object")
        _check_keys(notes, {}, _ENTRIES)
        for key, needed in _NEEDED.items():
            if notes.get(key) is not None and needed not in notes:
                raise _Mismatch(needed, "", f"an entry beside {key}")
        earlier = notes.get("provenance")
        while earlier:  # of the model, of the one that it was made from, and so on
            _at("provenance", _PROVENANCE, earlier)
            earlier = earlier.get("source")
    except _Mismatch as error:
        problem = f"{error.key} is {error.found}" if error.found else f"{error.key} is missing"
        raise InputError(
            f"{path}: {problem}, and {error.expected} is expected: correct the file, or write the folder again"
        ) from error
    return notes


def _at(key: str, shape: _Shape, value: object) -> None:
    """Validate the value of a key, and name the key if it is wrong."""
    try:
        shape(value)
    except _Mismatch as error:
        error.key = f"{key}{'.' if error.key and not error.key.startswith('[') else ''}{error.key}"
        raise


def _check_keys(value: Mapping[str, Any], required: Mapping[str, _Shape], optional: Mapping[str, _Shape]) -> None:
    for key, shape in {**required, **optional}.items():
        if key in value:
            _at(key, shape, value[key])
        elif key in required:
            raise _Mismatch(key, "", getattr(shape, "name", "a value"))


@dataclass(frozen=True)
class _Plain:
    """A value without parts.

    Attributes:
        name: What it is, for messages.
        fits: Whether a value is one.
    """

    name: str
    fits: Callable[[object], bool]

    def __call__(self, value: object) -> None:
        if not self.fits(value):
            raise _Mismatch("", _described(value), self.name)


@dataclass(frozen=True)
class _Object:
    """An object with keys of its own.

    Attributes:
        required: What its keys are.
        optional: Further keys, which may be missing.
    """

    required: Mapping[str, _Shape]
    optional: Mapping[str, _Shape]
    name: str = "an object"

    def __call__(self, value: object) -> None:
        if not isinstance(value, dict):
            raise _Mismatch("", _described(value), self.name)
        _check_keys(value, self.required, self.optional)


def _object(**required: _Shape) -> _Object:
    return _Object(required, {})


@dataclass(frozen=True)
class _Each:
    """A list, or an object with any keys, whose values are all of one shape."""

    name: str
    container: type[dict[str, Any]] | type[list[Any]]
    shape: _Shape
    least: int = 0

    def __call__(self, value: object) -> None:
        if not isinstance(value, self.container):
            raise _Mismatch("", _described(value), self.name)
        if len(value) < self.least:
            raise _Mismatch("", "empty", f"{self.name} with {self.least} or more")
        if isinstance(value, list):
            value = {f"[{index}]": each for index, each in enumerate(value)}
        for key, each in value.items():
            _at(key, self.shape, each)


@dataclass(frozen=True)
class _Optional:
    """A value, or null."""

    shape: _Shape
    name: str = "a value or null"

    def __call__(self, value: object) -> None:
        if value is not None:
            self.shape(value)


def _list_of(shape: _Shape, *, least: int = 0) -> _Each:
    return _Each("a list", list, shape, least)


def _map_of(shape: _Shape) -> _Each:
    return _Each("an object", dict, shape)


def _pair_of(first: _Shape, second: _Shape) -> _Shape:
    def check(value: object) -> None:
        if not isinstance(value, list) or len(value) != 2:
            raise _Mismatch("", _described(value), "a list of two")
        _at("[0]", first, value[0])
        _at("[1]", second, value[1])

    return check


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, float) or (
        isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _LARGEST
    )


def _is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST


def _described(value: object) -> str:
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else f"{text[:37]}…"


_OBJECT = _Plain("an object", lambda value: isinstance(value, dict))
_TEXT = _Plain("text", lambda value: isinstance(value, str))
_FLAG = _Plain("true or false", lambda value: isinstance(value, bool))
_COUNT = _Plain("a whole number from 0 on", _is_count)
_POSITIVE = _Plain("a whole number from 1 on", lambda value: _is_count(value) and value > 0)
_NUMBER = _Plain("a number", _is_number)  # may be NaN or infinite, as a score may be
_SHARE = _Plain("a number from 0 to 1", lambda value: _is_number(value) and 0 <= value <= 1)
_LENGTH = _Plain("a number above 0", lambda value: _is_number(value) and value > 0)
_ANY = _Plain("anything", lambda value: True)

_SCORES = _map_of(_NUMBER)
_SCORE = _Object(
    {"task": _TEXT, "metric": _TEXT, "value": _NUMBER, "higher_is_better": _FLAG, "examples": _COUNT},
    {"unit": _TEXT},
)
_PROVENANCE = _Object(
    {},
    {
        "command": _Object({}, {"language": _Optional(_TEXT), "options": _Optional(_OBJECT)}),
        "inputs": _map_of(_TEXT),
        "source": _Optional(_OBJECT),
    },
)
_QUALITY = _object(precision=_SHARE, csls_precision=_SHARE, words=_POSITIVE)
_TRAINING = _Object(
    {
        "selected_step": _COUNT,
        "tokens_seen": _COUNT,
        "seconds": _NUMBER,
        "tokens_per_second": _Optional(_NUMBER),
        "length": _COUNT,
        "learning_rate": _Optional(_NUMBER),
        "stages": _list_of(_OBJECT),
        "snapshots": _list_of(_COUNT),
    },
    {"command": _Optional(_object(options=_OBJECT)), "resumed": _FLAG, "from_trained": _FLAG},
)
_ENTRIES: Mapping[str, _Shape] = {
    "files": _list_of(_TEXT),
    "selected": _COUNT,
    # Of a graft and of a transfer
    "graft": _object(
        tokens=_COUNT,
        rows=_COUNT,
        origins=_map_of(_COUNT),
        lexical=_list_of(_TEXT),
        special_ids=_OBJECT,
        roles=_map_of(_COUNT),
        tied=_FLAG,
    ),
    "method": _TEXT,
    "fallback": _TEXT,
    "alignment": _Optional(_object(pairs_used=_COUNT, coverage=_NUMBER, quality=_Optional(_QUALITY))),
    "bits_per_byte_before_training": _Optional(_SCORES),
    "held_out_text": _Optional(
        _object(
            bytes=_COUNT,
            words=_POSITIVE,
            unit=_TEXT,
            source_tokens=_COUNT,
            target_tokens=_COUNT,
            origins=_map_of(_NUMBER),
        )
    ),
    "dictionary_check": _Optional(
        _Object(
            {"tokens": _COUNT, "text_share": _NUMBER, "words": _COUNT, "related": _Optional(_NUMBER)},
            {"entries": _COUNT, "frequent": _COUNT, "matches": _COUNT, "examples": _list_of(_TEXT)},
        )
    ),
    "bitext_check": _Optional(
        _Object(
            {"pairs": _COUNT, "tokens": _COUNT, "text_share": _NUMBER},
            {"overlap": _Optional(_NUMBER), "shared": _Optional(_COUNT)},
        )
    ),
    "trained_vocabulary": _FLAG,
    "not_scored": _Optional(_TEXT),
    "extension": _Optional(
        _object(
            added=_COUNT,
            tokens_per_byte=_list_of(_pair_of(_COUNT, _LENGTH), least=1),
            source_tokens=_COUNT,
            source_added=_COUNT,
            source_bits_per_byte=_SCORES,
        )
    ),
    "corpus_bytes": _Optional(_COUNT),
    "given_evidence": _Optional(_list_of(_TEXT)),
    "verdict": _Optional(
        _Object({"start": _TEXT, "reason": _TEXT}, {"changes": _map_of(_Optional(_TEXT)), "is_needed": _FLAG})
    ),
    "unigram_prior": _Optional(_object(changed=_TEXT, tokens=_COUNT, bits_before=_NUMBER, bits_after=_NUMBER)),
    "system_prompt": _Optional(_TEXT),
    "samples": _Optional(
        _list_of(_object(source=_list_of(_pair_of(_TEXT, _COUNT)), target=_list_of(_pair_of(_TEXT, _COUNT))))
    ),
    "provenance": _Optional(_PROVENANCE),
    # Of what was made from it
    "pruned": _Optional(_object(removed=_COUNT)),
    "compression": _Optional(_object(error=_Optional(_NUMBER), embedding_before=_COUNT, embedding_after=_COUNT)),
    "training": _Optional(_TRAINING),
    "trained_from": _TEXT,
    "head_added_to": _TEXT,
    "trelm": _Optional(_object(until=_TEXT, phases=_list_of(_SCORE), translation=_list_of(_SCORE))),
    "held_out": _map_of(_object(tokens=_POSITIVE, bytes=_COUNT)),
}
_NEEDED = {"graft": "method", "held_out_text": "graft"}
"""Entries that others are read with."""
