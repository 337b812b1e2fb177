"""The schema of a recipe: a table is a dataclass, its keys are the fields, and their types say what is valid.

`table_type` makes a pydantic type of a dataclass, and `build` the dataclass of what it validated. The type of a field
may carry a mark that says how a value is read:

    Annotated[…, "text"]           the name of a text, or a list of names (`TextInput` of `relexify.text`)
    Annotated[…, "named texts"]    a file, or a table of files by name
    Annotated[str, "model"]        a model (`ModelName` of `relexify.steps`)
    Annotated[str, REGISTRY]       a name in a registry, or in another mapping
    Annotated[…, Flattened(…)]     further options, whose keys are in the same table

Paths in values are made absolute: the folder that they are relative to is the context of the validation.
"""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    create_model,
)
from pydantic import Field as Bounds
from pydantic_core import PydanticCustomError

from relexify.errors import InputError
from relexify.recipes.mistakes import UNKNOWN, UNSET, checked, describe_value, invalid
from relexify.recipes.paths import UnsetVariable, absolute_model, absolute_path, absolute_text
from relexify.registry import choose, suggestion
from relexify.steps import INHERITED, Flattened

__all__ = [
    "ELSEWHERE",
    "TOP",
    "FolderName",
    "build",
    "default_of",
    "flattened_classes",
    "flattened_types",
    "inherits",
    "keys_type",
    "table_type",
    "value_type",
]

_BYTES_TO_SCORE = frozenset({"score_bytes", "held_out_bytes", "limit"})
"""Keys of several tables with one meaning: the bytes of held-out text to score on."""
_CONFIG = ConfigDict(strict=True, extra="forbid", arbitrary_types_allowed=True)
"""Strict, because a number in quotes is a mistake, and so is a key that does nothing."""

TOP = ("model", "output", "corpus", "held_out")
"""Fields of options that are filled from the top of the recipe."""
ELSEWHERE = dict.fromkeys(TOP, "write it above the first table") | dict.fromkeys(
    ("device", "overwrite", "keep_encoders"), "it is an option of the command line"
)

_FOLDER_NAME = re.compile(r"\w[\w.+-]*")


def table_type(options: type[Any], default: Any = None) -> Any:
    """Return a type that validates a table and gives the options that it has, as a dict.

    Args:
        options: A dataclass, or `dict` for a table with free keys.
        default: Options that those left out are taken from; the defaults of the dataclass if not given.
    """
    if not is_dataclass(options):
        return dict[str, Any]
    kinds = get_type_hints(options, include_extras=True)
    keys: dict[str, Any] = {}
    inherited: dict[str, list[str]] = {}
    flattened: dict[str, list[str]] = {}
    for entry in fields(options):
        if (further := flattened_types(kinds[entry.name])) is not None:
            flattened[entry.name] = list(further)
            keys |= {name: (value_type(kind), None) for name, kind in further.items()}
        elif entry.name not in ELSEWHERE:
            usual = default_of(entry) if default is None else getattr(default, entry.name)
            keys[entry.name] = (value_type(kinds[entry.name], usual), ... if usual is MISSING else None)
            inherited[entry.name] = _inherited(kinds[entry.name])

    def inherit(table: object) -> object:
        """Copy values into the tables of lists whose fields are marked as `INHERITED`."""
        if not isinstance(table, dict):
            return table
        completed = dict(table)
        for name, shared in inherited.items():
            if shared and isinstance(table.get(name), list):
                usual = options() if default is None else default
                values = {key: table.get(key, getattr(usual, key)) for key in shared}
                values = {key: value for key, value in values.items() if value is not None}
                completed[name] = [values | item if isinstance(item, dict) else item for item in table[name]]
        return completed

    def gather(given: dict[str, Any]) -> dict[str, Any]:
        """Put the options that are keys of the same table into their field."""
        for field, names in flattened.items():
            further = {name: given.pop(name) for name in names if name in given}
            if further:
                given[field] = further
        return given

    return Annotated[keys_type(options.__name__, keys), BeforeValidator(inherit), AfterValidator(gather)]


def keys_type(name: str, keys: Mapping[str, Any]) -> Any:
    """Return a type that validates a table with these keys and gives those that it has, as a dict.

    Args:
        name: The name of the type.
        keys: For each key its type, and `...` if it is required, else None.
    """

    def check_keys(table: object) -> object:
        if not isinstance(table, dict):
            return table
        unknown = next((key for key in table if key not in keys), None)
        if unknown is None:
            return table
        if unknown in ELSEWHERE:
            problem, remedy = f"{unknown} does not belong in", ELSEWHERE[unknown]
        else:
            problem, remedy = f"there is no key {unknown[:80]!r} in", suggestion(unknown, keys)
            if unknown in _BYTES_TO_SCORE and (same := _BYTES_TO_SCORE.intersection(keys)):
                remedy = f"write {min(same)}"
        raise PydanticCustomError(UNKNOWN, "unknown key", {"key": unknown, "problem": problem, "remedy": remedy})

    def given(table: BaseModel) -> dict[str, Any]:
        return {key: getattr(table, key) for key in keys if key in table.model_fields_set}

    model = create_model(name, __config__=_CONFIG, **keys)
    return Annotated[model, BeforeValidator(check_keys), AfterValidator(given)]


def flattened_classes(options: type[Any]) -> tuple[type[Any], ...]:
    """Return the classes whose fields are keys of the table of a dataclass; they may change with what is registered."""
    if not is_dataclass(options):
        return ()
    marks = map(_flattened_mark, get_type_hints(options, include_extras=True).values())
    return tuple(each for mark in marks if mark is not None for each in mark.classes())


def flattened_types(kind: Any) -> dict[str, Any] | None:
    """Return the types of the options in a flattened field, by name; None if the field is not one."""
    mark = _flattened_mark(kind)
    if mark is None:
        return None
    return {name: kind for each in mark.classes() for name, kind in get_type_hints(each, include_extras=True).items()}


def build(options: type[Any], given: Mapping[str, Any], default: Any = None) -> Any:
    """Return options with the values that a table has; a class may define `updated(**values)` to complete them.

    Raises:
        InputError: The values contradict each other.
    """
    if not is_dataclass(options):
        return {**(default or {}), **given}
    if hasattr(options, "updated"):
        base: Any = options() if default is None else default
        return base.updated(**given)
    return options(**given) if default is None else replace(default, **given)


def value_type(kind: Any, default: Any = None) -> Any:  # noqa: PLR0911
    """Return the type that validates a value for a field of a dataclass.

    Args:
        kind: The type of the field.
        default: The default of the field; a nested table that is given in part keeps the rest of it.
    """
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _marked_type(arguments[0], arguments[1:], default)
    if origin in (Union, types.UnionType):
        # TOML has no null: what may be None is left out. What may be a path or an object is a path.
        members = [member for member in arguments if member is not types.NoneType]
        return value_type(Path if Path in members else members[0], default)
    if kind is Path:
        return Annotated[str, BeforeValidator(partial(_absolute, absolute_path)), AfterValidator(_path)]
    if origin is Literal:
        return Annotated[str, AfterValidator(partial(_chosen, arguments, None))]
    if origin is tuple:
        return Annotated[list[value_type(arguments[0], None)], AfterValidator(_tuple)]  # type: ignore[misc]
    if origin is Mapping:
        return dict[str, value_type(arguments[1], None)]  # type: ignore[misc]
    if isinstance(kind, type) and is_dataclass(kind):
        if not is_dataclass(default):
            default = None
        nested = table_type(kind, default)
        return Annotated[nested, AfterValidator(lambda given: checked(build, kind, given, default))]
    if kind is int:
        return Annotated[int, Bounds(ge=-(2**63), lt=2**63)]
    if kind is float:
        return Annotated[float, Bounds(allow_inf_nan=False)]
    return kind


def default_of(entry: Field[Any]) -> Any:
    """Return the default of a field; `MISSING` if it has none."""
    return entry.default if entry.default_factory is MISSING else entry.default_factory()


def inherits(entry: Field[Any]) -> bool:
    """Whether the items of a list take a field from the options around it."""
    return INHERITED.items() <= entry.metadata.items()


def _marked_type(kind: Any, marks: tuple[Any, ...], default: Any) -> Any:
    """Return the type for `Annotated[kind, *marks]`; marks that are not of the schema are pydantic's own."""
    for mark in marks:
        if mark == "text":
            return Annotated[list[_TEXT], WrapValidator(_texts)]
        if mark == "named texts":
            return Annotated[dict[str, _TEXT], WrapValidator(_named_texts)]
        if mark == "model":
            return _MODEL
        if isinstance(mark, Mapping):
            return Annotated[str, AfterValidator(partial(_chosen, mark, getattr(mark, "kind", None)))]
    return Annotated[value_type(kind, default), *marks]


def _absolute(function: Callable[[str, Path], str], value: object, info: ValidationInfo) -> object:
    """Make a path absolute with one of the functions of `paths.py`, and report its errors with the key."""
    if not isinstance(value, str):
        return value  # its type is rejected later
    folder: Any = info.context
    try:
        return function(value, folder)
    except UnsetVariable as error:
        raise PydanticCustomError(UNSET, "unset variable", {"variable": error.variable}) from error
    except InputError as error:
        raise invalid(f" {error}") from error


_TEXT = Annotated[str, BeforeValidator(partial(_absolute, absolute_text))]
_MODEL = Annotated[str, BeforeValidator(partial(_absolute, absolute_model))]


# pydantic cannot inspect the signatures of Path and tuple themselves.
def _path(text: str) -> Path:
    return Path(text)


def _tuple(items: list[Any]) -> tuple[Any, ...]:
    return tuple(items)


def _texts(value: object, validate_list: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
    if isinstance(value, str):
        return _absolute(absolute_text, value, info)
    if not isinstance(value, list):
        raise invalid(f" is {describe_value(value)}: give the name of a text, or a list of names")
    if not value:
        raise invalid(" is an empty list: name a text, or leave it out")
    return tuple(validate_list(value))


def _named_texts(value: object, validate_table: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
    if isinstance(value, str):
        return _absolute(absolute_text, value, info)
    if not isinstance(value, dict) or not value:
        found = describe_value(value)
        raise invalid(f" is {found}: give the name of a file, or a table with a name for each of several")
    return {checked(_folder_name, name): text for name, text in validate_table(value).items()}


def _chosen(known: Collection[str], kind: str | None, value: str, info: ValidationInfo) -> str:
    return checked(choose, value, known, kind or str(info.field_name))


def _inherited(kind: Any) -> list[str]:
    """Return the fields that items of a list take from the options around it."""
    items = get_args(kind)[:1] if get_origin(kind) is tuple else ()
    return [entry.name for item in items if is_dataclass(item) for entry in fields(item) if inherits(entry)]


def _flattened_mark(kind: Any) -> Flattened | None:
    return next((mark for mark in get_args(kind) if isinstance(mark, Flattened)), None)


def _folder_name(name: str) -> str:
    if not _FOLDER_NAME.fullmatch(name):
        raise invalid(f" is {name[:80]!r}, which cannot name a folder: use letters, digits, '-', '.'")
    return name


FolderName = Annotated[str, AfterValidator(_folder_name)]
"""A name that is also the name of a folder."""
