"""Overrides: single values in place of those of a recipe, such as `training.steps=500` or `tasks.0.epochs=1`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from relexify.errors import InputError
from relexify.recipes.file.paths import OverrideText

__all__ = ["override"]


def override(table: Mapping[str, Any], overrides: Sequence[str]) -> tuple[dict[str, Any], frozenset[str]]:
    """Put values into a table; the given table is not changed.

    Args:
        table: As `tomllib` reads it.
        overrides: Keys separated by dots, `=`, and a TOML value; a value that is not TOML is text. A number is the
            index of a table in a list, from 0. Without a value, the key is removed. Later overrides win.

    Returns:
        The new table, and the keys that were overridden, in the form `tasks[0].epochs`.

    Raises:
        InputError: An override is not of this form, or its keys lead through something that is not a table.
    """
    result, keys = dict(table), []
    for text in overrides:
        path, value = _parse(text)
        result, key = _put(result, path, value, text)
        keys.append(key)
    return result, frozenset(keys)


def _parse(text: str) -> tuple[list[str], object]:
    """Return the keys and the value of an override; the value is None if the key is to be removed."""
    key, equals, value = text.partition("=")
    try:
        nested: Any = tomllib.loads(f"{key} = 0") if equals else {}
    except (ValueError, RecursionError):
        nested = {}
    path: list[str] = []
    while isinstance(nested, dict) and nested:  # TOML itself knows how keys are quoted and separated
        name, nested = next(iter(nested.items()))
        path.append(name)
    if not path:
        form = f"{text}=VALUE" if text and not equals else "KEY=VALUE"
        raise InputError(f"the override {text!r} is not of the form KEY=VALUE: write {form}")
    if not value.strip():
        return path, None
    try:
        parsed = tomllib.loads(f"value = {value.strip()}")
    except tomllib.TOMLDecodeError:
        parsed = {}
    except (ValueError, RecursionError) as error:  # more digits or brackets than Python takes
        raise InputError(f"the override of {key} cannot be read ({error}): give a shorter value") from error
    # With two keys the value holds a line break and a second assignment: text, not TOML.
    return path, _mark_texts(parsed["value"] if len(parsed) == 1 else value.strip())


def _mark_texts(value: object) -> object:
    """Mark all texts of a value as given by an override, so that paths are relative to the current folder."""
    if isinstance(value, str):
        return OverrideText(value)
    if isinstance(value, list):
        return [_mark_texts(each) for each in value]
    if isinstance(value, dict):
        return {key: _mark_texts(each) for key, each in value.items()}
    return value


def _put(table: dict[str, Any], path: list[str], value: object, text: str) -> tuple[dict[str, Any], str]:
    """Return the table with the value, and the key in the form of messages."""
    name, *rest = path
    if not rest:
        others = {key: each for key, each in table.items() if key != name}
        return others if value is None else {**table, name: value}, name
    below = table.get(name, {})
    if isinstance(below, list) and len(rest) > 1:
        index = int(rest[0]) if rest[0].isdigit() else len(below)
        if index >= len(below) or not isinstance(below[index], dict):
            raise InputError(
                f"the override {text!r} leads through {rest[0]}, which is not a table of its list: count from 0 to "
                f"{len(below) - 1}"
            )
        item, key = _put(below[index], rest[1:], value, text)
        return {**table, name: [*below[:index], item, *below[index + 1 :]]}, f"{name}[{index}].{key}"
    if not isinstance(below, dict):
        raise InputError(
            f"the override {text!r} leads through {name}, which is not a table: override {name} as a whole"
        )
    inner, key = _put(below, rest, value, text)
    return {**table, name: inner}, f"{name}.{key}"
