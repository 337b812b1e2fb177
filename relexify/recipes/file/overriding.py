"""Single values in place of those of a recipe file: `training.steps=500`, or `tasks.0.epochs=1` within a list."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from relexify.errors import InputError

__all__ = ["override"]


def override(table: Mapping[str, Any], overrides: Sequence[str]) -> tuple[dict[str, Any], frozenset[str]]:
    """Put values into a table; the table that is given stays as it is.

    Args:
        table: As `tomllib` reads it.
        overrides: Keys with dots between them, `=`, and a value of TOML; what is none is taken as text. A number
            counts the tables of a list, from 0.

    Returns:
        The new table, and the keys that were put in.

    Raises:
        InputError: An override has no such form, or its keys lead through something that is no table.
    """
    result, keys = dict(table), []
    for text in overrides:
        path, value = _parse(text)
        result = _put(result, path, value, text)
        keys.append(_key(result, path))
    return result, frozenset(keys)


def _parse(text: str) -> tuple[tuple[str, ...], Any]:
    key, equals, value = text.partition("=")
    try:
        nested: Any = tomllib.loads(f"{key} = 0") if equals else {}
    except tomllib.TOMLDecodeError:
        nested = {}
    path: list[str] = []
    while isinstance(nested, dict) and nested:
        (name, nested), *_ = nested.items()
        path.append(name)
    if not path:
        raise InputError(f"the override {text!r} is not of the form KEY=VALUE: write it like training.steps=500")
    return tuple(path), _value(value.strip())


def _value(text: str) -> Any:
    try:
        parsed = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    return parsed["value"] if len(parsed) == 1 else text


def _put(table: dict[str, Any], path: tuple[str, ...], value: Any, text: str) -> dict[str, Any]:
    name, *rest = path
    if not rest:
        return table | {name: value}
    below = table.get(name, {})
    if isinstance(below, list) and len(rest) > 1:
        return table | {name: _put_in_list(below, rest[0], tuple(rest[1:]), value, text)}
    if not isinstance(below, dict):
        raise InputError(f"the override {text!r} leads through {name}, which is no table: override {name} as a whole")
    return table | {name: _put(below, tuple(rest), value, text)}


def _put_in_list(tables: list[Any], number: str, path: tuple[str, ...], value: Any, text: str) -> list[Any]:
    place = int(number) if number.isdigit() else len(tables)
    if place >= len(tables) or not isinstance(tables[place], dict):
        raise InputError(
            f"the override {text!r} leads through {number}, which is no table of its list: count from 0 to "
            f"{len(tables) - 1}"
        )
    return [*tables[:place], _put(tables[place], path, value, text), *tables[place + 1 :]]


def _key(table: Any, path: tuple[str, ...]) -> str:
    """The keys as places of a recipe have them: `tasks[0].epochs`."""
    key = ""
    for name in path:
        if isinstance(table, list):
            key, table = f"{key}[{name}]", table[int(name)]
        else:
            key, table = f"{key}.{name}" if key else name, table[name]
    return key
