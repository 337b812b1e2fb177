"""Write options as a table of a recipe that `reading.py` reads as the same options; defaults are left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import is_dataclass
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

from relexify.errors import InputError
from relexify.recipes.file.paths import written_model, written_path, written_text
from relexify.recipes.file.schema import NamesFiles, keys_of, member_of
from relexify.steps import NamesModel
from relexify.text import NamesText

__all__ = ["table_of", "toml_value"]


def table_of(options: Any, default: Any = None, around: Any = None) -> dict[str, Any]:
    """Return options as a table that `read_table` reads back, wherever the recipe is; defaults are left out.

    Args:
        options: A dataclass, or a dict.
        default: Options whose values are left out; the defaults of the dataclass if not given.
        around: The options that contain these.

    Raises:
        InputError: A value is an object that a file cannot hold.
    """
    if not is_dataclass(options):
        return dict(options)
    table: dict[str, Any] = {}
    for key in keys_of(type(options), default):
        value = getattr(options, key.container).get(key.name) if key.container else getattr(options, key.name)
        usual = getattr(around, key.name) if around is not None and key.is_inherited else key.default
        if value is not None and value != usual:
            table[key.name] = toml_value(value, key.annotation, key.name, usual, options)
    return table


def toml_value(value: Any, annotation: Any, name: str, default: Any = None, around: Any = None) -> Any:  # noqa: PLR0911
    """Return a value as TOML can hold it, so that `read_value` reads it back.

    Args:
        value: Not None.
        annotation: The type of the field.
        name: The name of the field, for messages.
        default: The default of the field; what nested options share with it is left out.
        around: The options that have the field.

    Raises:
        InputError: A file cannot hold it.
    """
    annotation = member_of(annotation)
    origin, arguments = get_origin(annotation), get_args(annotation)
    marks = arguments[1:] if origin is Annotated else ()
    if NamesText() in marks and isinstance(value, list | tuple):
        return [written_text(_named(each, name)) for each in value]
    if NamesFiles() in marks and isinstance(value, Mapping):
        return {key: written_text(_named(each, name)) for key, each in value.items()}
    if NamesText() in marks or NamesFiles() in marks:
        return written_text(_named(value, name))
    if NamesModel() in marks:
        return written_model(value)
    if origin is Annotated:
        return toml_value(value, arguments[0], name, default, around)
    if annotation is Path:
        return written_path(_named(value, name))
    if is_dataclass(value):
        return table_of(value, default if is_dataclass(default) else None, around)
    if isinstance(value, tuple):
        return [toml_value(item, arguments[0] if arguments else Any, name, None, around) for item in value]
    return dict(value) if isinstance(value, Mapping) else value


def _named(value: object, name: str) -> str | Path:
    if not isinstance(value, str | Path):
        raise InputError(f"{name} is a {type(value).__name__}, which a recipe cannot hold: give the path of a file")
    return value
