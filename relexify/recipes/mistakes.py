"""Explain a mistake in a recipe in one sentence: the file, the key, what was found, and what was expected."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar, TypeVarTuple

from pydantic import ValidationError
from pydantic_core import PydanticCustomError

from relexify.errors import InputError

__all__ = ["UNKNOWN", "UNSET", "Origin", "checked", "describe_value", "explain", "invalid", "located"]

Arguments = TypeVarTuple("Arguments")
Result = TypeVar("Result")

UNKNOWN, UNSET = "unknown", "unset"
"""Kinds of errors that validators raise: a key that a table does not have, and a variable that is not set."""
_INVALID = "invalid"
_MISSING = "missing"
"""What pydantic calls a required key that is left out."""

_EXPECTED = {
    "bool_type": "true or false",
    "int_type": "a whole number",
    "float_type": "a number",
    "string_type": "text in quotes",
    "list_type": "a list",
    "dict_type": "a table",
    "model_type": "a table",
    "finite_number": "a finite number",
    "greater_than_equal": "a number of at most 64 bits",
    "less_than": "a number of at most 64 bits",
}


class Origin:
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


def invalid(message: object) -> PydanticCustomError:
    """Return an error of a validator; the message follows the key, such as `" is empty: …"` or `": there is …"`."""
    return PydanticCustomError(_INVALID, "{message}", {"message": str(message)})


def checked(function: Callable[[*Arguments], Result], *arguments: *Arguments) -> Result:
    """Call a function inside a validator, so that its `InputError` is reported with the key."""
    try:
        return function(*arguments)
    except InputError as error:
        raise invalid(f": {error}") from error


@contextmanager
def located(key: str) -> Iterator[None]:
    """Put a key before the message of an `InputError` that is raised inside."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{key}: {error}") from error


def explain(error: ValidationError, origin: Origin) -> str:
    """Return one sentence about the first mistake; an unknown key comes first, because others follow from it."""
    found = error.errors(include_url=False)
    first = min(found, key=lambda each: {UNKNOWN: 0, _MISSING: 2}.get(each["type"], 1))
    key = _key(first["loc"])
    if first["type"] == UNKNOWN:
        context = first["ctx"]
        where = origin.of(_key((*first["loc"], context["key"])))
        return f"{where}: {context['problem']} {_table_name(key)}: {context['remedy']}"
    if first["type"] == _MISSING:
        table = first["loc"][:-1]
        names = [str(each["loc"][-1]) for each in found if each["type"] == _MISSING and each["loc"][:-1] == table]
        listed = " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
        add = "add it" if len(names) == 1 else "add them"
        return f"{origin.of(_key(table))}: {_table_name(_key(table))} lacks {listed}: {add}"
    if first["type"] == UNSET:
        unset = [each for each in found if each["type"] == UNSET and each["ctx"] == first["ctx"]]
        files = ", ".join(f"{_key(each['loc'])} is {each['input']}" for each in unset)
        return (
            f"{origin.of(key)}: the variable {first['ctx']['variable']} is not set, but {files}: set it to the folder "
            f"of these files, or give paths of your own, such as `{key}=PATH`; `KEY=` leaves out what is not required"
        )
    if first["type"] == _INVALID:
        return f"{origin.locate(key)}{first['msg']}"
    expected = _EXPECTED.get(first["type"], first["msg"])
    return f"{origin.locate(key)} is {describe_value(first['input'])}: give {expected}"


def _key(location: tuple[int | str, ...]) -> str:
    """Return a location in the form `tasks[0].epochs`."""
    key = ""
    for part in location:
        if isinstance(part, int):
            key += f"[{part}]"
        elif key:
            key += f".{part}"
        else:
            key = part
    return key


def _table_name(key: str) -> str:
    return f"[{key}]" if key else "the top of the file"


def describe_value(value: object) -> str:
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
