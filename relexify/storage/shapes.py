"""Shapes of json values: validate a value, and name the wrong key in the message.

shape = object_of(tokens=COUNT, origins=map_of(COUNT))
shape({"tokens": 3, "origins": {"mixed": "3"}})      # raises Mismatch: origins.mixed is "3"
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeGuard

__all__ = [
    "COUNT",
    "FLAG",
    "LENGTH",
    "NUMBER",
    "OBJECT",
    "POSITIVE",
    "SHARE",
    "TEXT",
    "Mismatch",
    "ObjectShape",
    "OptionalShape",
    "Shape",
    "at_key",
    "describe_value",
    "list_of",
    "map_of",
    "object_of",
    "pair_of",
]

_LARGEST = 2**63 - 1

Shape = Callable[[object], None]
"""Validates a value; raises `Mismatch`."""


class Mismatch(Exception):
    """A value does not have the shape that its key requires.

    Attributes:
        key: The key inside the outermost value, such as `origins.mixed`.
        found: The value, for messages; empty if it is missing.
        expected: The expected shape, in words.
    """

    def __init__(self, key: str, found: str, expected: str) -> None:
        super().__init__(key)
        self.key, self.found, self.expected = key, found, expected


def at_key(key: str, shape: Shape, value: object) -> None:
    """Validate the value of a key; add the key to the `Mismatch` if it is wrong."""
    try:
        shape(value)
    except Mismatch as error:
        error.key = f"{key}{'.' if error.key and not error.key.startswith('[') else ''}{error.key}"
        raise


@dataclass(frozen=True)
class _Plain:
    """A value without parts.

    Attributes:
        name: The shape in words, for messages.
        fits: Whether a value has this shape.
    """

    name: str
    fits: Callable[[object], bool]

    def __call__(self, value: object) -> None:
        if not self.fits(value):
            raise Mismatch("", describe_value(value), self.name)


@dataclass(frozen=True)
class ObjectShape:
    """An object with certain keys; keys that are not listed may have any value.

    Attributes:
        required: The shapes of its required keys.
        optional: The shapes of keys that may be missing.
    """

    required: Mapping[str, Shape]
    optional: Mapping[str, Shape] = field(default_factory=dict)
    name: str = "an object"

    def __call__(self, value: object) -> None:
        """Validate a value."""
        if not isinstance(value, dict):
            raise Mismatch("", describe_value(value), self.name)
        for key, shape in {**self.required, **self.optional}.items():
            if key in value:
                at_key(key, shape, value[key])
            elif key in self.required:
                raise Mismatch(key, "", getattr(shape, "name", "a value"))


def object_of(**required: Shape) -> ObjectShape:
    """Return the shape of an object whose keys are all required."""
    return ObjectShape(required)


@dataclass(frozen=True)
class _Each:
    """A list, or an object with any keys, whose values all have the same shape."""

    name: str
    container: type[dict[str, Any]] | type[list[Any]]
    shape: Shape
    least: int = 0

    def __call__(self, value: object) -> None:
        if not isinstance(value, self.container):
            raise Mismatch("", describe_value(value), self.name)
        if len(value) < self.least:
            raise Mismatch("", "empty", f"{self.name} with {self.least} or more")
        if isinstance(value, list):
            value = {f"[{index}]": each for index, each in enumerate(value)}
        for key, each in value.items():
            at_key(key, self.shape, each)


def list_of(shape: Shape, *, least: int = 0) -> Shape:
    """Return the shape of a list."""
    return _Each("a list", list, shape, least)


def map_of(shape: Shape) -> Shape:
    """Return the shape of an object with any keys."""
    return _Each("an object", dict, shape)


def pair_of(first: Shape, second: Shape) -> Shape:
    """Return the shape of a list of two."""

    def check(value: object) -> None:
        if not isinstance(value, list) or len(value) != 2:
            raise Mismatch("", describe_value(value), "a list of two")
        at_key("[0]", first, value[0])
        at_key("[1]", second, value[1])

    return check


@dataclass(frozen=True)
class OptionalShape:
    """A value, or null."""

    shape: Shape
    name: str = "a value or null"

    def __call__(self, value: object) -> None:
        """Validate a value."""
        if value is not None:
            self.shape(value)


def describe_value(value: object) -> str:
    """Return a value for a message, shortened; for an object or a list, only its type."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else f"{text[:37]}…"


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, float) or (
        isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _LARGEST
    )


def _is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST


OBJECT: Shape = _Plain("an object", lambda value: isinstance(value, dict))
TEXT: Shape = _Plain("text", lambda value: isinstance(value, str))
FLAG: Shape = _Plain("true or false", lambda value: isinstance(value, bool))
COUNT: Shape = _Plain("a whole number from 0 on", _is_count)
POSITIVE: Shape = _Plain("a whole number from 1 on", lambda value: _is_count(value) and value > 0)
NUMBER: Shape = _Plain("a number", _is_number)  # may be NaN or infinite, as a score may be
SHARE: Shape = _Plain("a number from 0 to 1", lambda value: _is_number(value) and 0 <= value <= 1)
LENGTH: Shape = _Plain("a number above 0", lambda value: _is_number(value) and value > 0)
