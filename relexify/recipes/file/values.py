"""Values of a TOML file into the fields of dataclasses, by the types of the fields.

A key that no field has, a value of another type and a missing value are told in a sentence.
"""

from __future__ import annotations

import difflib
import types
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from relexify.errors import InputError
from relexify.recipes.file.paths import Place, absolute_path, corpus_name

__all__ = ["check_keys", "choose", "convert", "convert_fields"]

_EXPECTED: Mapping[type, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text in quotes",
    list: "a list",
    dict: "a table",
}


def convert(value: object, kind: Any, place: Place) -> Any:
    """A value of a TOML file as a value of the type.

    Args:
        value: As `tomllib` reads it.
        kind: A type as fields of dataclasses have it; `Any` is for corpora: a name, or a list of names.
        place: Where the value stands.

    Raises:
        InputError: It is of another type.
    """
    return _READERS.get(get_origin(kind) or kind, _record)(value, kind, place)


def convert_fields(
    table: object, kind: type, place: Place, *, elsewhere: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """The fields of a dataclass from a table; those that the table leaves out are left out.

    Args:
        table: As `tomllib` reads it.
        kind: The dataclass.
        place: Where the table stands.
        elsewhere: Fields that a table may not have, each with what to do instead.

    Raises:
        InputError: A key is unknown or missing, or a value is of another type.
    """
    elsewhere = elsewhere or {}
    known = {field.name: field for field in fields(kind) if field.name not in elsewhere}
    required = [name for name, field in known.items() if field.default is MISSING and field.default_factory is MISSING]
    checked = check_keys(table, known, required, place, elsewhere=elsewhere)
    kinds = get_type_hints(kind)
    return {name: convert(checked[name], kinds[name], place.below(name)) for name in known if name in checked}


def check_keys(
    table: object,
    known: Collection[str],
    required: Collection[str],
    place: Place,
    *,
    elsewhere: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The table itself, if it has the required keys and none that is unknown.

    Raises:
        InputError: It has not, or is no table.
    """
    checked: dict[str, Any] = _typed(table, dict, place)
    name = f"[{place.key}]" if place.key else "the top of the file"
    for key in checked:
        origin = place.below(key).origin
        if key in (elsewhere or {}):
            raise InputError(f"{origin}: {key} has no place in {name}: {(elsewhere or {})[key]}")
        if key not in known:
            raise InputError(f"{origin}: there is no key {key!r} in {name}: {_nearest(key, known)}")
    missing = [key for key in required if key not in checked]
    if missing:
        names = " and ".join(filter(None, [", ".join(missing[:-1]), missing[-1]]))
        raise InputError(f"{place.origin}: {name} lacks {names}: add {'it' if len(missing) == 1 else 'them'}")
    return checked


def choose(value: str, known: Collection[str], place: Place, what: str) -> str:
    """The value itself, if it is known.

    Raises:
        InputError: It is not.
    """
    if value not in known:
        raise InputError(f"{place}: there is no {what} {value!r}: {_nearest(value, known)}")
    return value


def _nearest(name: str, known: Collection[str]) -> str:
    """What to write in place of a name that is unknown."""
    close = difflib.get_close_matches(name.lower(), known, n=1)
    return f"did you mean {close[0]!r}?" if close else f"choose one of {', '.join(known)}"


def _typed(value: object, kind: type, place: Place) -> Any:
    """The value itself, if it is exactly of the type; true is no number."""
    if type(value) is not kind:
        raise InputError(f"{place} is {_description(value)}: give {_EXPECTED[kind]}")
    return value


def _description(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str():
            return f"the text {value[:80]!r}"
        case int() | float():
            return f"the number {value}"
        case list():
            return "a list"
        case dict():
            return "a table"
    return f"a {type(value).__name__}"


def _scalar(value: object, kind: Any, place: Place) -> Any:
    return _typed(value, kind, place)


def _float(value: object, kind: Any, place: Place) -> float:
    return float(value) if type(value) is int else _typed(value, kind, place)


def _path(value: object, kind: Any, place: Place) -> Path:
    return absolute_path(_typed(value, str, place), place)


def _corpus(value: object, kind: Any, place: Place) -> str | tuple[str, ...]:
    if isinstance(value, str):
        return corpus_name(value, place)
    if not isinstance(value, list):
        raise InputError(f"{place} is {_description(value)}: give the name of a text, or a list of names")
    if not value:
        raise InputError(f"{place} is an empty list: name a text, or leave it out")
    return tuple(corpus_name(_typed(item, str, place.at(index)), place) for index, item in enumerate(value))


def _optional(value: object, kind: Any, place: Place) -> Any:
    """TOML has no none: what may be none is left out. What may be a path or an object is a path."""
    kinds = [member for member in get_args(kind) if member is not types.NoneType]
    return convert(value, Path if Path in kinds else kinds[0], place)


def _choice(value: object, kind: Any, place: Place) -> str:
    return choose(_typed(value, str, place), get_args(kind), place, place.key.rpartition(".")[2])


def _tuple(value: object, kind: Any, place: Place) -> tuple[Any, ...]:
    items = _typed(value, list, place)
    return tuple(convert(item, get_args(kind)[0], place.at(index)) for index, item in enumerate(items))


def _mapping(value: object, kind: Any, place: Place) -> dict[str, Any]:
    table = _typed(value, dict, place)
    return {key: convert(item, get_args(kind)[1], place.below(key)) for key, item in table.items()}


def _record(value: object, kind: Any, place: Place) -> Any:
    return kind(**convert_fields(value, kind, place))


_READERS: Mapping[Any, Callable[[object, Any, Place], Any]] = {
    Any: _corpus,
    Union: _optional,
    types.UnionType: _optional,
    Literal: _choice,
    tuple: _tuple,
    Mapping: _mapping,
    Path: _path,
    float: _float,
    bool: _scalar,
    int: _scalar,
    str: _scalar,
}
