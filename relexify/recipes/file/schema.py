"""The keys of a table: the fields of its options, with their types and defaults.

`reading.py` reads a table by them, and `writing.py` writes one. The type of a field may carry marks:

    Annotated[…, NamesText()]      the name of a text, or a list of names (`TextOption` of `relexify.text`)
    Annotated[…, NamesFiles()]     a file, or a table of files by name
    Annotated[str, NamesModel()]   a model (`ModelName` of `relexify.steps`)
    Annotated[str, REGISTRY]       a name in a registry, or in another mapping
    Annotated[…, Convert(…)]       a value that may also be written in another form
    Annotated[…, Check(…)]         a value that has to pass a check
    Annotated[…, Flattened(…)]     further options, whose keys are in the same table
"""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from relexify.recipes.file.mistakes import InvalidValue
from relexify.steps import INHERITED, Flattened

__all__ = [
    "ELSEWHERE",
    "TOP",
    "Check",
    "Convert",
    "FolderName",
    "Key",
    "NamesFiles",
    "default_of",
    "flattened_classes",
    "keys_of",
    "member_of",
]

TOP = ("model", "output", "corpus", "held_out")
"""Fields of options that are filled from the top of the recipe."""
ELSEWHERE = dict.fromkeys(TOP, "write it above the first table") | dict.fromkeys(
    ("device", "overwrite", "keep_encoders"), "it is an option of the command line"
)
"""Fields of options that are not keys of their table, and what to do instead of writing them there."""


@dataclass(frozen=True)
class Convert:
    """Marks a field whose values may have another form: the function converts that, and returns others as they are."""

    function: Callable[[Any], Any]


@dataclass(frozen=True)
class NamesFiles:
    """Marks a field with the name of a file, or with a table of several files by name."""


@dataclass(frozen=True)
class Check:
    """Marks a field whose values have to pass a check: the function raises `InvalidValue`."""

    function: Callable[[Any], None]


def _check_folder_name(name: str) -> None:
    if not re.fullmatch(r"\w[\w.+-]*", name):
        raise InvalidValue(f"is {name[:80]!r}, which cannot name a folder: use letters, digits, '-', '.'")


FolderName = Annotated[str, Check(_check_folder_name)]
"""A name that is also the name of a folder."""


@dataclass(frozen=True)
class Key:
    """A key of a table.

    Attributes:
        name: The key.
        annotation: The type of its value, as annotated.
        default: The value of the field if the key is left out; `MISSING` if it must be given.
        is_inherited: Whether a table in a list takes it from the table around the list.
        container: The `Flattened` field that has its value by name; empty if the key has a field of its own.
    """

    name: str
    annotation: Any
    default: Any
    is_inherited: bool = False
    container: str = ""


def keys_of(options: type[Any], default: Any = None) -> list[Key]:
    """Return the keys of the table of a dataclass.

    Args:
        options: The dataclass. The keys may change with the methods that are registered, so they are not cached.
        default: Options that those left out are taken from; the defaults of the dataclass if not given.
    """
    annotations = get_type_hints(options, include_extras=True)
    keys = []
    for entry in fields(options):
        usual = default_of(entry) if default is None else getattr(default, entry.name)
        flattened = flattened_classes(annotations[entry.name])
        if flattened is not None:
            for each in flattened.values():
                for name, annotation in get_type_hints(each, include_extras=True).items():
                    keys.append(Key(name, annotation, usual.get(name), container=entry.name))
        elif entry.name not in ELSEWHERE:
            inherited = INHERITED.items() <= entry.metadata.items()
            keys.append(Key(entry.name, annotations[entry.name], usual, inherited))
    return keys


def flattened_classes(annotation: Any) -> Mapping[str, type[Any]] | None:
    """Return the classes whose fields are keys of the same table, if the type of a field is `Flattened`; else None."""
    mark = next((mark for mark in get_args(annotation) if isinstance(mark, Flattened)), None)
    return None if mark is None else mark.classes()


def default_of(entry: Field[Any]) -> Any:
    """Return the default of a field; `MISSING` if it has none."""
    return entry.default if entry.default_factory is MISSING else entry.default_factory()


def member_of(annotation: Any) -> Any:
    """Return the type that values in a file have: of a union, the path if it has one, else its first member.

    TOML has no null: what may be None is left out. What may be a path or an object is a path.
    """
    if get_origin(annotation) not in (Union, types.UnionType):
        return annotation
    members = [member for member in get_args(annotation) if member is not types.NoneType]
    return Path if Path in members else members[0]
