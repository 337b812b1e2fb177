"""Read tables of a recipe as options: the type of a field says how its value is read, and what is valid.

    read_value     one value, by its type; that of a nested table is a dataclass
    read_keys      the values of a table whose keys are given
    read_table     the values of a table whose keys are the fields of a dataclass
    build          the dataclass, from these values
    read_changes   options with some of their values changed

`writing.py` is the way back. All mistakes in a table are collected (`Mistakes`), and `mistakes.py` chooses the one that
is reported.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, is_dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

from relexify.errors import InputError
from relexify.recipes.file.mistakes import (
    InvalidValue,
    MissingKey,
    Mistake,
    Mistakes,
    UnknownKey,
    ValueOrigin,
    describe_found,
    explained,
)
from relexify.recipes.file.paths import absolute_model, absolute_path, absolute_text
from relexify.recipes.file.schema import ELSEWHERE, Check, Convert, FolderName, Key, NamesFiles, keys_of, member_of
from relexify.registry import Registry, choose, suggestion
from relexify.steps import NamesModel
from relexify.text import NamesText

__all__ = ["Location", "Reader", "build", "read_changes", "read_keys", "read_table", "read_value"]

Options = TypeVar("Options")
Part = TypeVar("Part", str, int)
Value = TypeVar("Value")

_EXPECTED = {bool: "true or false", int: "a whole number", str: "text in quotes", list: "a list", dict: "a table"}


@dataclass(frozen=True)
class Location:
    """Where a value is.

    Attributes:
        folder: The folder that paths are relative to.
        key: The key of the value, in the form `tasks[0].epochs`; empty for a whole file.
    """

    folder: Path
    key: str = ""

    def below(self, part: str | int) -> Location:
        """Return the location of a value in a table, by its key, or in a list, by its index."""
        if isinstance(part, int):
            return replace(self, key=f"{self.key}[{part}]")
        return replace(self, key=f"{self.key}.{part}" if self.key else part)

    @property
    def name(self) -> str:
        """The last key, without an index."""
        return self.key.rpartition(".")[2].partition("[")[0]


Reader = Callable[[object, Location], Any]
"""Returns a value as the program takes it; raises `InputError` or `Mistakes`."""


def read_changes(options: Options, table: object, location: Location, origin: ValueOrigin) -> Options:
    """Return options with the values that a table has in place of their own.

    Args:
        options: A dataclass, or a dict.
        table: Some of its keys, as TOML has them.
        location: Where the table is.
        origin: Where its values were written, for messages.

    Raises:
        InputError: A key or a value is invalid, or the values contradict each other.
    """
    read = partial(read_table, options=type(options), default=options)
    with explained(origin):
        (values,) = _read_all([(read, table, location)])
    changed: Options = build(type(options), values, options)
    return changed


def build(options: type[Any], values: Mapping[str, Any], default: Any = None) -> Any:
    """Return options with these values; a class may define `updated(**values)` to derive other values from them.

    Raises:
        InputError: The values contradict each other.
    """
    if not is_dataclass(options):
        return {**(default or {}), **values}
    if hasattr(options, "updated"):
        base: Any = options() if default is None else default
        return base.updated(**values)
    return options(**values) if default is None else replace(default, **values)


def read_keys(
    table: object, location: Location, *, readers: Mapping[str, Reader], required: Collection[str] = ()
) -> dict[str, Any]:
    """Return the values that a table has, by key.

    Args:
        table: As TOML has it.
        location: Where it is.
        readers: How the value of each key is read.
        required: The keys that it must have.

    Raises:
        InputError: It is not a table.
        Mistakes: It has other keys, lacks one, or a value is invalid.
    """
    given = _ensure(dict, table)
    unknown = next((key for key in given if key not in readers), None)
    if unknown is not None:
        raise Mistakes([Mistake(location.key, _unknown_key(unknown, readers))])
    missing = [Mistake(location.key, MissingKey(key)) for key in required if key not in given]
    parts = ((readers[key], value, location.below(key)) for key, value in given.items())
    return dict(zip(given, _read_all(parts, missing), strict=True))


def read_table(table: object, location: Location, *, options: type[Any], default: Any = None) -> dict[str, Any]:
    """Return the values in a table by the fields of its options; `build` makes the options from them.

    Args:
        table: As TOML has it.
        location: Where it is.
        options: A dataclass, or `dict` for a table with free keys.
        default: Options that those left out are taken from; the defaults of the dataclass if not given.

    Raises:
        InputError: It is not a table.
        Mistakes: A key or a value is invalid.
    """
    if not is_dataclass(options):
        return dict(_ensure(dict, table))
    keys = {key.name: key for key in keys_of(options, default)}
    readers = {name: partial(read_value, annotation=key.annotation, default=key.default) for name, key in keys.items()}
    required = [name for name, key in keys.items() if key.default is MISSING]
    completed = _with_inherited_values(_ensure(dict, table), keys)
    values: dict[str, Any] = {}
    for name, value in read_keys(completed, location, readers=readers, required=required).items():
        if container := keys[name].container:  # the field that has the options of all methods, by name
            others = values.get(container, getattr(default, container, {}))
            values[container] = {**others, name: value}
        else:
            values[name] = value
    return values


def read_value(value: object, location: Location, *, annotation: Any, default: Any = None) -> Any:  # noqa: PLR0911
    """Return a value of a field.

    Args:
        value: As TOML has it.
        location: Where it is.
        annotation: The type of the field.
        default: The default of the field; a nested table that is given in part keeps the rest of it.

    Raises:
        InputError: It is invalid.
        Mistakes: Values in it are invalid.
    """
    annotation = member_of(annotation)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _read_marked(value, location, annotation=arguments[0], marks=arguments[1:], default=default)
    if origin is Literal:
        return _read_choice(_ensure(str, value), arguments)
    if origin is tuple:
        items = dict(enumerate(_ensure(list, value)))
        return tuple(_read_parts(items, location, partial(read_value, annotation=arguments[0])).values())
    if origin is Mapping:
        return _read_parts(_ensure(dict, value), location, partial(read_value, annotation=arguments[1]))
    if annotation is Path:
        return Path(absolute_path(_ensure(str, value), location.folder))
    if isinstance(annotation, type) and is_dataclass(annotation):
        usual = default if is_dataclass(default) else None
        return build(annotation, read_table(value, location, options=annotation, default=usual), usual)
    if annotation is float:
        return _read_float(value)
    if annotation is int and not -(2**63) <= _ensure(int, value) < 2**63:
        raise _unexpected(value, "a number of at most 64 bits")
    return annotation(_ensure(annotation, value)) if annotation in _EXPECTED else value


def _read_marked(value: object, location: Location, *, annotation: Any, marks: Collection[Any], default: Any) -> Any:
    """Return a value of a field whose type is `Annotated[annotation, *marks]`."""
    for mark in marks:
        match mark:
            case NamesText():
                return _read_texts(value, location)
            case NamesFiles():
                return _read_named_texts(value, location)
            case NamesModel():
                return absolute_model(_ensure(str, value), location.folder)
            case Registry():
                return choose(str(_ensure(str, value)), mark, mark.kind)
            case Mapping():
                return choose(str(_ensure(str, value)), mark, location.name)
            case Convert():
                value = mark.function(value)
    read = read_value(value, location, annotation=annotation, default=default)
    for mark in marks:
        if isinstance(mark, Check):
            mark.function(read)
    return read


def _read_choice(value: str, choices: Sequence[str]) -> str:
    """Return one of a few values as a text of its own: a value of `--set` is a subclass of `str`."""
    if value not in choices:
        raise InvalidValue(f"is {value[:80]!r}: {suggestion(value, choices)}")
    return str(value)


def _read_texts(value: object, location: Location) -> str | tuple[str, ...]:
    if isinstance(value, str):
        return _read_text(value, location)
    if not isinstance(value, list):
        raise _unexpected(value, "the name of a text, or a list of names")
    if not value:
        raise InvalidValue("is an empty list: name a text, or leave it out")
    return tuple(_read_parts(dict(enumerate(value)), location, _read_text).values())


def _read_named_texts(value: object, location: Location) -> str | dict[str, str]:
    if isinstance(value, str):
        return _read_text(value, location)
    if not isinstance(value, dict) or not value:
        raise _unexpected(value, "the name of a file, or a table with a name for each of several")
    texts = _read_parts(value, location, _read_text)
    return {read_value(name, location, annotation=FolderName): text for name, text in texts.items()}


def _read_text(value: object, location: Location) -> str:
    return absolute_text(_ensure(str, value), location.folder)


def _read_float(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _unexpected(value, "a number")
    try:
        number = float(value)
    except OverflowError as error:
        raise _unexpected(value, "a number of at most 64 bits") from error
    if not math.isfinite(number):
        raise _unexpected(value, "a finite number")
    return number


def _ensure(expected: type[Value], value: object) -> Value:
    """Return a value if it has this type already: a number in quotes is a mistake, and `true` is no number."""
    if isinstance(value, expected) and (expected is bool or not isinstance(value, bool)):
        return value
    raise _unexpected(value, _EXPECTED[expected])


def _unexpected(value: object, expected: str) -> InvalidValue:
    return InvalidValue(f"is {describe_found(value)}: give {expected}")


def _unknown_key(key: str, known: Collection[str]) -> UnknownKey:
    if key in ELSEWHERE:
        return UnknownKey(key, f"{key} does not belong in", ELSEWHERE[key])
    problem, remedy = f"there is no key {key[:80]!r} in", suggestion(key, known, listed_by="relexify options")
    return UnknownKey(key, problem, remedy)


def _with_inherited_values(table: Mapping[str, Any], keys: Mapping[str, Key]) -> dict[str, Any]:
    """Copy inherited values of a table into the tables of its lists that do not have their own."""
    completed = dict(table)
    for name, key in keys.items():
        item = get_args(key.annotation)[0] if get_origin(key.annotation) is tuple else None
        if is_dataclass(item) and isinstance(item, type) and isinstance(table.get(name), list):
            inherited = [each.name for each in keys_of(item) if each.is_inherited]
            values = {each: table.get(each, keys[each].default) for each in inherited}
            given = {each: value for each, value in values.items() if value is not None}
            completed[name] = [given | entry if isinstance(entry, dict) else entry for entry in table[name]]
    return completed


def _read_parts(parts: Mapping[Part, object], location: Location, read: Reader) -> dict[Part, Any]:
    """Read the items of a list, by index, or the values of a table, by key, all in the same way."""
    values = _read_all((read, value, location.below(part)) for part, value in parts.items())
    return dict(zip(parts, values, strict=True))


def _read_all(parts: Iterable[tuple[Reader, object, Location]], mistakes: Iterable[Mistake] = ()) -> list[Any]:
    """Read values, each with its own reader; raise all mistakes together, the given ones after those in the values."""
    values: list[Any] = []
    found: list[Mistake] = []
    for read, value, location in parts:
        try:
            values.append(read(value, location))
        except Mistakes as inner:
            found += inner.found
        except InputError as error:
            found.append(Mistake(location.key, error))
    found += mistakes
    if found:
        raise Mistakes(found)
    return values
