"""The schema of a recipe: a table is a dataclass, its keys are the fields, and their types say what is valid.

`table_type` makes a pydantic type of a dataclass. `explain` turns an error of pydantic into one sentence with the file,
the key, what was found and what was expected. `table_of` is the way back, from a dataclass to a table without defaults.
"""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    create_model,
)
from pydantic import Field as Bounds
from pydantic_core import PydanticCustomError

from relexify.errors import InputError
from relexify.recipes.paths import (
    UnsetVariable,
    absolute_model,
    absolute_path,
    absolute_text,
    written_model,
    written_path,
    written_text,
)
from relexify.registry import choose, suggestion
from relexify.steps import INHERITED, Flattened

__all__ = [
    "ELSEWHERE",
    "TOP",
    "FolderName",
    "Origin",
    "build",
    "checked",
    "explain",
    "flattened_classes",
    "invalid",
    "keys_type",
    "table_of",
    "table_type",
    "value_type",
    "written",
]

_CONFIG = ConfigDict(strict=True, extra="forbid", arbitrary_types_allowed=True)
"""Strict, because a number in quotes is a mistake, and so is a key that does nothing."""

TOP = ("model", "output", "corpus", "held_out")
"""Fields of options that are filled from the top of the recipe."""
ELSEWHERE = dict.fromkeys(TOP, "write it above the first table") | dict.fromkeys(
    ("device", "overwrite", "keep_encoders"), "it is an option of the command line"
)

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
_FOLDER_NAME = re.compile(r"\w[\w.+-]*")
_INVALID, _UNKNOWN, _MISSING, _UNSET = "invalid", "unknown", "missing", "unset"


# From a dataclass to a type for pydantic.


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
        if (further := _flattened(kinds[entry.name])) is not None:
            flattened[entry.name] = list(further)
            keys |= {name: (value_type(kind), None) for name, kind in further.items()}
        elif entry.name not in ELSEWHERE:
            usual = _default(entry) if default is None else getattr(default, entry.name)
            keys[entry.name] = (value_type(kinds[entry.name], usual), ... if usual is MISSING else None)
            inherited[entry.name] = _inherited(kinds[entry.name])

    def inherit(table: object) -> object:
        """Copy values into the tables of lists whose fields are marked so."""
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
        name: Of the type.
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
        raise PydanticCustomError(_UNKNOWN, "unknown key", {"key": unknown, "problem": problem, "remedy": remedy})

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


def invalid(message: object) -> PydanticCustomError:
    """Return an error of a validator; the message follows the key, such as `" is empty: …"` or `": there is …"`."""
    return PydanticCustomError(_INVALID, "{message}", {"message": str(message)})


def checked(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function inside a validator, so that its `InputError` is reported with the key."""
    try:
        return function(*arguments)
    except InputError as error:
        raise invalid(f": {error}") from error


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
    if is_dataclass(kind):
        if not is_dataclass(default):
            default = None
        nested = table_type(kind, default)  # type: ignore[arg-type]
        return Annotated[nested, AfterValidator(lambda given: checked(build, kind, given, default))]
    if kind is int:
        return Annotated[int, Bounds(ge=-(2**63), lt=2**63)]
    if kind is float:
        return Annotated[float, Bounds(allow_inf_nan=False)]
    return kind


def _marked_type(kind: Any, marks: tuple[Any, ...], default: Any) -> Any:
    for mark in marks:
        if mark == "text":
            return Annotated[list[_TEXT], WrapValidator(_texts)]
        if mark == "text name":
            return _TEXT
        if mark == "named texts":
            return Annotated[dict[str, _TEXT], WrapValidator(_named_texts)]
        if mark == "model":
            return _MODEL
        if isinstance(mark, Mapping):
            return Annotated[str, AfterValidator(partial(_chosen, mark, getattr(mark, "kind", None)))]
    return Annotated[value_type(kind, default), *marks]


def _absolute(function: Callable[[str, Path], str], value: object, info: ValidationInfo) -> object:
    if not isinstance(value, str):
        return value
    folder: Any = info.context
    try:
        return function(value, folder)
    except UnsetVariable as error:
        raise PydanticCustomError(_UNSET, "unset variable", {"variable": error.variable}) from error
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
        raise invalid(f" is {_description(value)}: give the name of a text, or a list of names")
    if not value:
        raise invalid(" is an empty list: name a text, or leave it out")
    return tuple(validate_list(value))


def _named_texts(value: object, validate_table: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
    if isinstance(value, str):
        return _absolute(absolute_text, value, info)
    if not isinstance(value, dict) or not value:
        raise invalid(f" is {_description(value)}: give the name of a file, or a table with a name for each of several")
    return {checked(_folder_name, name): text for name, text in validate_table(value).items()}


def _chosen(known: Any, kind: str | None, value: str, info: ValidationInfo) -> str:
    return str(checked(choose, value, known, kind or info.field_name))


def _default(entry: Field[Any]) -> Any:
    return entry.default if entry.default_factory is MISSING else entry.default_factory()


def _inherited(kind: Any) -> list[str]:
    """Return the fields that items of a list take from the options around it."""
    items = get_args(kind)[:1] if get_origin(kind) is tuple else ()
    return [entry.name for item in items if is_dataclass(item) for entry in fields(item) if _inherits(entry)]


def _flattened(kind: Any) -> dict[str, Any] | None:
    """Return the types of the options in a flattened field, by name; None if the field is not one."""
    mark = _flattened_mark(kind)
    if mark is None:
        return None
    return {name: kind for each in mark.classes() for name, kind in get_type_hints(each, include_extras=True).items()}


def _flattened_mark(kind: Any) -> Flattened | None:
    return next((mark for mark in get_args(kind) if isinstance(mark, Flattened)), None)


def _inherits(entry: Field[Any]) -> bool:
    return INHERITED.items() <= entry.metadata.items()


def _folder_name(name: str) -> str:
    if not _FOLDER_NAME.fullmatch(name):
        raise invalid(f" is {name[:80]!r}, which cannot name a folder: use letters, digits, '-', '.'")
    return name


FolderName = Annotated[str, AfterValidator(_folder_name)]
"""A name that is also the name of a folder."""


# From the errors of pydantic to a sentence.


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


def explain(error: ValidationError, origin: Origin) -> str:
    """Return one sentence about the first mistake; an unknown key comes first, because others follow from it."""
    found = error.errors(include_url=False)
    first = min(found, key=lambda each: {_UNKNOWN: 0, _MISSING: 2}.get(each["type"], 1))
    key = _key(first["loc"])
    if first["type"] == _UNKNOWN:
        context = first["ctx"]
        where = origin.of(_key((*first["loc"], context["key"])))
        return f"{where}: {context['problem']} {_table_name(key)}: {context['remedy']}"
    if first["type"] == _MISSING:
        table = first["loc"][:-1]
        names = [str(each["loc"][-1]) for each in found if each["type"] == _MISSING and each["loc"][:-1] == table]
        listed = " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
        add = "add it" if len(names) == 1 else "add them"
        return f"{origin.of(_key(table))}: {_table_name(_key(table))} lacks {listed}: {add}"
    if first["type"] == _UNSET:
        unset = [each for each in found if each["type"] == _UNSET and each["ctx"] == first["ctx"]]
        keys = ", ".join(_key(each["loc"]) for each in unset)
        return (
            f"{origin.of(key)}: the variable {first['ctx']['variable']} is not set, and the paths of {keys} begin with "
            f"it: set it to the folder of these files, or give paths of your own, such as `{key}=PATH`; `KEY=` leaves "
            "out what is not required"
        )
    if first["type"] == _INVALID:
        return f"{origin.locate(key)}{first['msg']}"
    expected = _EXPECTED.get(first["type"], first["msg"])
    return f"{origin.locate(key)} is {_description(first['input'])}: give {expected}"


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


def _description(value: object) -> str:
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


# From a dataclass to a table.


def table_of(options: Any, default: Any = None, around: Any = None) -> dict[str, Any]:
    """Return options as a table that `table_type` reads as the same, wherever the recipe lies; defaults are left out.

    Args:
        options: A dataclass, or a dict.
        default: Options whose values are left out; the defaults of the dataclass if not given.
        around: The options that contain these.

    Raises:
        InputError: A value is an object that a file cannot hold.
    """
    if not is_dataclass(options):
        return dict(options)
    kinds = get_type_hints(type(options), include_extras=True)
    table: dict[str, Any] = {}
    for entry in fields(options):
        value = getattr(options, entry.name)
        usual = _default(entry) if default is None else getattr(default, entry.name)
        if around is not None and _inherits(entry):
            usual = getattr(around, entry.name)
        if (further := _flattened(kinds[entry.name])) is not None:
            table |= {name: written(each, further[name], name) for name, each in value.items()}
        elif entry.name not in ELSEWHERE and value is not None and value != usual:
            table[entry.name] = written(value, kinds[entry.name], entry.name, usual, options)
    return table


def written(value: Any, kind: Any, name: str, default: Any = None, around: Any = None) -> Any:  # noqa: PLR0911
    """Return a value as TOML can hold it, so that `value_type` reads it as the same.

    Args:
        value: Not None.
        kind: The type of the field.
        name: The name of the field, for messages.
        default: The default of the field; what nested options share with it is left out.
        around: The options that have the field.

    Raises:
        InputError: A file cannot hold it.
    """
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        members = [member for member in arguments if member is not types.NoneType]
        return written(value, Path if Path in members else members[0], name, default, around)
    marks = arguments[1:] if origin is Annotated else ()
    if "text" in marks and isinstance(value, list | tuple):
        return [written_text(_named(each, name)) for each in value]
    if "named texts" in marks and isinstance(value, Mapping):
        return {key: written_text(_named(each, name)) for key, each in value.items()}
    if "text" in marks or "text name" in marks or "named texts" in marks:
        return written_text(_named(value, name))
    if "model" in marks:
        return written_model(value)
    if origin is Annotated:
        return written(value, arguments[0], name, default, around)
    if kind is Path:
        return written_path(_named(value, name))
    if is_dataclass(value):
        return table_of(value, default if is_dataclass(default) else None, around)
    if isinstance(value, tuple):
        return [written(item, arguments[0] if arguments else Any, name, None, around) for item in value]
    return dict(value) if isinstance(value, Mapping) else value


def _named(value: Any, name: str) -> str | Path:
    if not isinstance(value, str | Path):
        raise InputError(f"{name} is a {type(value).__name__}, which a recipe cannot hold: give the path of a file")
    return value
