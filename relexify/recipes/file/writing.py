"""Dataclasses into TOML; what equals the defaults is left out."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

from relexify.errors import InputError
from relexify.recipes.file.paths import written_corpus, written_path

__all__ = ["differing", "toml_text", "written_texts"]

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def differing(
    record: Any, *, leave_out: Collection[str] = (), defaults: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The fields of a dataclass that differ from their defaults, as a table for `toml_text`.

    Args:
        record: A dataclass.
        leave_out: Fields to leave out whatever they are.
        defaults: Defaults in place of those of the dataclass.

    Raises:
        InputError: A field holds an object that no file can.
    """
    usual = {field.name: _default(field) for field in fields(record)} | dict(defaults or {})
    kinds = get_type_hints(type(record))
    values = {name: getattr(record, name) for name in usual if name not in leave_out}
    return {
        name: _plain(value, kinds[name], name)
        for name, value in values.items()
        if value is not None and value != usual[name]
    }


def written_texts(texts: Any, name: str) -> str | list[str]:
    """A corpus, or several, as `convert` takes it.

    Raises:
        InputError: It is not given by name.
    """
    if isinstance(texts, list | tuple):
        return [written_corpus(_named(text, name)) for text in texts]
    return written_corpus(_named(texts, name))


def toml_text(table: Mapping[str, Any]) -> str:
    """A table of text, numbers, lists and tables as TOML."""
    return "\n".join(_lines(table, ())).lstrip("\n") + "\n"


def _default(field: Any) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


def _plain(value: Any, kind: Any, name: str) -> Any:
    """The value of a field of that type, as `toml_text` takes it."""
    members = get_args(kind) or (kind,)
    if kind is Any:
        return written_texts(value, name)
    if Path in members:
        return written_path(_named(value, name))
    if is_dataclass(kind):
        return differing(value)
    if isinstance(value, tuple):
        return [_plain(item, members[0], name) for item in value]
    return dict(value) if isinstance(value, Mapping) else value


def _named(value: Any, name: str) -> str | Path:
    if not isinstance(value, str | Path):
        raise InputError(f"{name} is a {type(value).__name__}, which a recipe cannot hold: give the path of a file")
    return value


def _lines(table: Mapping[str, Any], keys: tuple[str, ...]) -> Iterator[str]:
    """First the values of a table, then the tables below it, since TOML closes a table where the next one opens."""
    for key, value in table.items():
        if not _is_table(value) and not _is_list_of_tables(value):
            yield f"{_key(key)} = {_value(value)}"
    for key, value in table.items():
        name = ".".join(map(_key, (*keys, key)))
        if _is_table(value):
            yield from ("", f"[{name}]", *_lines(value, (*keys, key)))
        elif _is_list_of_tables(value):
            for item in value:
                yield from ("", f"[[{name}]]", *_lines(item, (*keys, key)))


def _is_table(value: Any) -> bool:
    return isinstance(value, Mapping)


def _is_list_of_tables(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_table, value))


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        # A string of JSON is one of TOML, but for the one control character that JSON lets pass.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_key(key)} = {_value(item)}' for key, item in value.items())}}}"
    return repr(value)


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else _value(key)
