"""Settings: options of one step by their keys in a recipe, for the command line and for `relexify options`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from relexify.errors import InputError, choices_of
from relexify.recipes.file.mistakes import ValueOrigin
from relexify.recipes.file.overrides import override
from relexify.recipes.file.reading import Location, read_changes
from relexify.recipes.file.schema import ELSEWHERE, default_of, flattened_classes
from relexify.registry import choose
from relexify.steps import STEPS

__all__ = ["OptionKey", "apply_settings", "list_options"]

Options = TypeVar("Options")


@dataclass(frozen=True)
class OptionKey:
    """A key of a recipe table.

    Attributes:
        name: The key; keys of nested options are separated by dots.
        default: The default value, as TOML has it; empty if it must be given or has none.
        meaning: What it means.
        choices: The values that it may have, if they are few.
    """

    name: str
    default: str
    meaning: str
    choices: tuple[str, ...] = ()


def apply_settings(table: str, options: Options, settings: Sequence[str] | None) -> Options:
    """Return options with some of them changed.

    Args:
        table: The recipe table that the options belong to, for messages; keys may begin with it.
        options: A dataclass.
        settings: `"neighbours=20"`, `"vectors.width=300"` and the like; later ones win.

    Raises:
        InputError: A setting is malformed, a key is unknown, or a value is invalid.
    """
    if not settings:
        return options
    given, _ = override({}, [text.removeprefix(f"{table}.") for text in settings])
    names = {entry.name for entry in fields(options)}  # type: ignore[arg-type]
    for foreign in (name for name in given if name in STEPS and name not in names and isinstance(given[name], dict)):
        key = ".".join([foreign, *list(given[foreign])[:1]])  # no key if the whole table is to be left out
        raise InputError(
            f"--set {key} is for the table [{foreign}] of a recipe, and this command "
            f"has options of [{table}] only: leave it out"
        )
    return read_changes(options, given, Location(Path.cwd()), _CommandLine(table))


def list_options(table: str | None = None) -> dict[str, list[OptionKey]]:
    """Return the keys of a recipe table, or of all tables.

    Raises:
        InputError: There is no such table.
    """
    names = list(STEPS) if table is None else [choose(table, STEPS, STEPS.kind)]
    return {name: list(_list_keys(STEPS[name].options)) for name in names}


def _list_keys(options: type[Any], prefix: str = "", default: Any = None) -> Iterator[OptionKey]:
    """Yield the keys of a dataclass of options; those of nested options have a prefix."""
    if not is_dataclass(options):
        yield OptionKey("…", "", "any field of the model's config")
        return
    meanings = _attribute_docs(options)
    annotations = get_type_hints(options, include_extras=True)
    for entry in fields(options):
        if entry.name in ELSEWHERE:
            continue
        value = default_of(entry) if default is None else getattr(default, entry.name)
        if value is MISSING:
            value = None
        if (flattened := flattened_classes(annotations[entry.name])) is not None:
            for owner, further in flattened.items():
                yield from (replace(key, meaning=f"{owner}: {key.meaning}") for key in _list_keys(further, prefix))
        elif is_dataclass(annotations[entry.name]):
            yield from _list_keys(annotations[entry.name], f"{prefix}{entry.name}.", value)
        else:
            choices = choices_of(annotations[entry.name])
            yield OptionKey(f"{prefix}{entry.name}", _format_default(value), meanings.get(entry.name, ""), choices)


def _format_default(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{list(value)}" if isinstance(value, tuple) else str(value)


def _attribute_docs(options: type[Any]) -> dict[str, str]:
    """Return the descriptions of fields in the section `Attributes:` of a docstring."""
    section = inspect.getdoc(options) or ""
    section = section.partition("Attributes:\n")[2]
    found = re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", section, flags=re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in found}


class _CommandLine(ValueOrigin):
    """The command line as the origin of values of a table."""

    def __init__(self, table: str) -> None:
        super().__init__(Path())
        self._table = table

    def of(self, key: str = "") -> str:
        return "--set"

    def locate(self, key: str) -> str:
        return f"--set {key}"

    def table(self, key: str) -> str:
        return super().table(key or self._table)
