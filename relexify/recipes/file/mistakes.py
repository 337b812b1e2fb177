"""Explain a mistake in a recipe in one sentence: the file, the key, what was found, and what was expected."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from relexify.errors import InputError

__all__ = [
    "InvalidValue",
    "MissingKey",
    "Mistake",
    "Mistakes",
    "UnknownKey",
    "UnsetVariable",
    "ValueOrigin",
    "describe_found",
    "explained",
    "located",
]


class InvalidValue(InputError):
    """A value is invalid; the message is the end of a sentence that begins with the key, such as `is empty: …`."""


class UnknownKey(InputError):
    """A table does not have a key.

    Args:
        key: The key.
        problem: The beginning of a sentence that ends with the table.
        remedy: What to do.
    """

    def __init__(self, key: str, problem: str, remedy: str) -> None:
        super().__init__(f"{problem} this table: {remedy}")
        self.key, self.problem, self.remedy = key, problem, remedy


class MissingKey(InputError):
    """A table lacks a key that it must have."""

    def __init__(self, key: str) -> None:
        super().__init__(f"{key} is missing: add it")
        self.key = key


class UnsetVariable(InputError):
    """A path names an environment variable that is not set.

    Args:
        variable: Its name.
        path: The path as it was written.
    """

    def __init__(self, variable: str, path: str) -> None:
        super().__init__(f"the variable {variable} is not set")
        self.variable, self.path = variable, path


@dataclass(frozen=True)
class Mistake:
    """A mistake in a recipe.

    Attributes:
        key: The key of the value, or that of the table if it has an unknown key or lacks one.
        error: What is wrong.
    """

    key: str
    error: InputError


class Mistakes(Exception):
    """Several mistakes in a recipe, in its order."""

    def __init__(self, found: Sequence[Mistake]) -> None:
        super().__init__(found)
        self.found = found


class ValueOrigin:
    """Where the values of a recipe come from, for messages."""

    def __init__(self, file: Path, overridden: frozenset[str] = frozenset()) -> None:
        self._file = file
        self._overridden = overridden

    def of(self, key: str = "") -> str:
        """Return where a key was written: in the file, or in its overrides."""
        parts = [key[:end] for end, letter in enumerate(key) if letter in ".["] + [key]
        return f"the overrides of {self._file}" if self._overridden.intersection(parts) else str(self._file)

    def locate(self, key: str) -> str:
        """Return the key with where it was written."""
        return f"{self.of(key)}: {key}"

    def table(self, key: str) -> str:
        """Return the name of a table for messages."""
        return f"[{key}]" if key else "the top of the file"


@contextmanager
def located(key: str) -> Iterator[None]:
    """Put a key before the message of an `InputError` that is raised inside."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{key}: {error}") from error


@contextmanager
def explained(origin: ValueOrigin) -> Iterator[None]:
    """Raise an `InputError` with one sentence in place of the mistakes that are raised inside."""
    try:
        yield
    except Mistakes as mistakes:
        raise InputError(_explain(mistakes.found, origin)) from mistakes


def _explain(found: Sequence[Mistake], origin: ValueOrigin) -> str:
    """Return one sentence about the first mistake; an unknown key comes first, because others follow from it."""
    first = min(found, key=lambda mistake: {UnknownKey: 0, MissingKey: 2}.get(type(mistake.error), 1))
    key, error = first.key, first.error
    if isinstance(error, UnknownKey):
        where = origin.of(f"{key}.{error.key}" if key else error.key)
        return f"{where}: {error.problem} {origin.table(key)}: {error.remedy}"
    if isinstance(error, MissingKey):
        names = [each.error.key for each in found if isinstance(each.error, MissingKey) and each.key == key]
        listed = " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
        add = "add it" if len(names) == 1 else "add them"
        return f"{origin.of(key)}: {origin.table(key)} lacks {listed}: {add}"
    if isinstance(error, UnsetVariable):
        paths = {each.key: each.error for each in found if isinstance(each.error, UnsetVariable)}
        files = [f"{name} is {each.path}" for name, each in paths.items() if each.variable == error.variable]
        return (
            f"{origin.of(key)}: the variable {error.variable} is not set, but {', '.join(files)}: set it to the folder "
            f"of these files, or give paths of your own, such as `{key}=PATH`; `KEY=` leaves out what is not required"
        )
    separator = " " if isinstance(error, InvalidValue) else ": "
    return f"{origin.locate(key)}{separator}{error}"


def describe_found(value: object) -> str:
    """Return what was found, as a part of a sentence."""
    match value:
        case bool():
            return str(value).lower()
        case str():
            return f"the text {str(value)[:80]!r}"
        case int() | float():
            text = str(value)
            return f"the number {text}" if len(text) <= 40 else f"the number {text[:40]}…"
        case list():
            return "a list"
        case dict():
            return "a table"
    return f"a {type(value).__name__}"
