"""Recipes: a whole run as a TOML file.

    title = "WECHSEL for GPT-2"
    output = "gpt2-swahili"
    model = "gpt2"
    corpus = ["$TEXT/sw.train.txt.xz"]

    [transfer]                     # one table for each step of the run: see `relexify.steps`
    method = "wechsel"

    [training]
    steps = 250_000

    [compare]                      # the fields of CompareOptions, for relexify compare
    runs = ["wechsel", "transinner"]

    [[tasks]]                      # the fields of TaskEntry
    task = "ner"
    train = "wikiann/train.tsv"
    test = "wikiann/test.tsv"

Paths are relative to the file; those of overrides, and of recipes that come with relexify, to the current folder.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import tomli_w

from relexify.errors import InputError
from relexify.recipes.file.comparison import RUNS, CompareOptions
from relexify.recipes.file.mistakes import InvalidValue, ValueOrigin, explained, located
from relexify.recipes.file.named import find_recipe, folder_of_paths
from relexify.recipes.file.overrides import override
from relexify.recipes.file.reading import Location, Reader, build, read_changes, read_keys, read_table, read_value
from relexify.recipes.file.schema import TOP, Convert
from relexify.recipes.file.tasks import TaskEntry
from relexify.recipes.file.writing import table_of, toml_value
from relexify.registry import choose, suggestion
from relexify.steps import STEPS, ModelName, Step
from relexify.text import TextOption

__all__ = ["Recipe", "changed_tables", "read_recipe", "recipe_text", "tables_beside"]


def _ensure_list_of_tables(tables: object) -> object:
    if not isinstance(tables, list):
        raise InvalidValue("is not a list of tables: write [[tasks]] above each of them")
    return tables


@dataclass(frozen=True)
class Recipe:
    """The content of a recipe file; paths are absolute.

    Attributes:
        title: The title of reports.
        output: The folder to write.
        model: The pretrained model to start from: a folder, a Hub name or a packaged model.
        corpus: Text in the target language: a name, or several.
        held_out: Text to score on; if None, a part of the corpus is held out.
        tables: The options of each step of the run, by the name of its table.
        compare: The runs of a comparison.
        tasks: What trained models are evaluated on.
        source: The file that it was read from; it does not count when two recipes are compared.
    """

    title: str
    output: Path
    model: ModelName
    corpus: TextOption
    held_out: TextOption | None = None
    tables: Mapping[str, Any] = field(default_factory=dict)
    compare: CompareOptions | None = None
    tasks: Annotated[tuple[TaskEntry, ...], Convert(_ensure_list_of_tables)] = ()
    source: Path = field(default=Path(), compare=False)

    @property
    def steps(self) -> list[Step[Any, Any]]:
        """The steps of the run in their order."""
        return sorted((STEPS[table] for table in self.tables), key=lambda step: step.order)

    @property
    def last_training(self) -> Step[Any, Any] | None:
        """The last step that trains; the runs of a comparison differ in its plan, if it has one."""
        return next((step for step in reversed(self.steps) if step.training is not None), None)

    @property
    def languages(self) -> tuple[str, ...]:
        """The names of the languages of the last model; empty if it has one."""
        named = [tuple(step.languages(self.tables[step.table])) for step in self.steps]
        return next((names for names in reversed(named) if names), ())


def read_recipe(path: str | Path, overrides: Sequence[str] = ()) -> Recipe:
    """Read a recipe.

    Args:
        path: The file, or the name of a recipe that comes with relexify.
        overrides: Values in place of those in the file, such as `"training.steps=500"`; later ones win. A value that is
            not TOML is text. Without a value, as in `"held_out="`, the key is left out.

    Raises:
        InputError: The file cannot be read, an override is malformed, a key is unknown or missing, a value is invalid,
            or tables do not go together.
    """
    file = find_recipe(path)
    table, overridden = override(_parse(file), overrides)
    origin = ValueOrigin(Path(path), overridden)
    # Conflicts come first: what a table lacks does not matter if the table should not be there.
    for name, step in STEPS.items():
        for other, reason in step.conflicts.items():
            if name in table and other in table:
                raise InputError(f"{origin.of()}: [{name}] and [{other}] do not go together ({reason}): leave out one")
    annotations = get_type_hints(Recipe, include_extras=True)
    keys = ("title", "output", "model", "corpus", "held_out", "compare", "tasks")
    readers: dict[str, Reader] = {key: partial(read_value, annotation=annotations[key]) for key in keys}
    readers |= {name: partial(read_table, options=step.options) for name, step in STEPS.items()}
    location = Location(folder_of_paths(file))
    with explained(origin):
        values = read_keys(table, location, readers=readers, required=("output", "model", "corpus"))
    top: dict[str, Any] = {name: values.get(name) for name in TOP}
    tables: dict[str, Any] = {}
    for name, step in STEPS.items():
        if name in values:
            own = {entry.name for entry in fields(step.options)} if is_dataclass(step.options) else ()
            with located(origin.locate(name)):
                given = {**values[name], **{key: value for key, value in top.items() if key in own}}
                tables[name] = build(step.options, given)
    recipe = Recipe(
        title=values.get("title", os.fsencode(file.stem).decode("utf-8", "backslashreplace")),
        **top,
        tables=tables,
        compare=values.get("compare"),
        tasks=values.get("tasks", ()),
        source=file,
    )
    # From the last one, because a step may reject an earlier table that would itself only be said to lack a key.
    for step in reversed(recipe.steps):
        with located(origin.locate(step.table)):
            step.validate(tables[step.table], tables)
    _check_runs(recipe, origin)
    _check_tasks(recipe, origin)
    return recipe


def recipe_text(recipe: Recipe) -> str:
    """Return a recipe as TOML, with absolute paths, so that it can be moved anywhere; defaults are left out.

    Encode it with `surrogateescape`: names of files may have bytes that are not UTF-8.

    Raises:
        InputError: A part of it is an object that a file cannot hold.
    """
    annotations = get_type_hints(Recipe, include_extras=True)
    named = {name: getattr(recipe, name) for name in ("output", "model", "corpus", "held_out")}
    table: dict[str, Any] = {"title": recipe.title}
    table |= {name: toml_value(value, annotations[name], name) for name, value in named.items() if value is not None}
    table |= {step.table: table_of(recipe.tables[step.table]) for step in recipe.steps}
    if recipe.compare is not None:
        runs: list[str | dict[str, Any]] = []
        for run in recipe.compare.runs:
            # Its changes are written as differences between options, so that paths in them are absolute.
            tables = changed_tables(recipe, run.changes)
            changes = {name: table_of(tables[name], recipe.tables[name]) for name in run.changes}
            as_table = table_of(run) | ({"changes": changes} if changes else {})
            runs.append(run.name if RUNS.get(run.name) == run else as_table)
        table["compare"] = table_of(recipe.compare) | {"runs": runs}
    if recipe.tasks:
        table["tasks"] = [table_of(entry) for entry in recipe.tasks]
    return tomli_w.dumps(table)


def changed_tables(recipe: Recipe, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tables of a recipe with some keys changed, as a run of a comparison has them.

    Args:
        recipe: The recipe.
        changes: Tables with the keys that change, as TOML has them; other keys of a table stay as they are.

    Raises:
        InputError: The recipe has no such table, or a key or value is invalid.
    """
    tables = dict(recipe.tables)
    for name, given in changes.items():
        options = tables[choose(name, tables, "table of this recipe")]
        location = Location(folder_of_paths(recipe.source), name)
        tables[name] = read_changes(options, given, location, ValueOrigin(recipe.source))
    return tables


def tables_beside(other: str, suits: Callable[[Step[Any, Any]], bool]) -> str:
    """Return the tables that suit a purpose and do not conflict with another table, as a part of a message."""
    return " or ".join(f"[{name}]" for name, step in STEPS.items() if suits(step) and other not in step.conflicts)


def _parse(file: Path) -> dict[str, Any]:
    """Read a TOML file; every error is reported with the file, and with the line if it is known."""
    try:
        if file.exists() and not file.is_file():
            raise InputError(f"{file} is not a file: give the path of a recipe")
        content = file.read_bytes()
    except OSError as error:
        raise InputError(f"{file} cannot be read ({error.strerror}): give the path of a recipe") from error
    text = content.decode("utf-8-sig", "surrogateescape")
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        _check_encoding(file, content)
        reason, _, location = str(error).partition(" (at ")
        line = re.match(r"line (\d+)", location)
        number = int(line[1]) if line else len(text.splitlines())
        raise InputError(f"{file}, line {number}: this is not TOML ({reason}): correct the line") from error
    except RecursionError as error:
        raise InputError(f"{file} nests too many lists or tables: check that it is a recipe") from error
    except ValueError as error:
        raise InputError(f"{file} has a number of thousands of digits: shorten it") from error
    # Names of files may have bytes that are not UTF-8; in anything else, these are a wrong encoding.
    folder = folder_of_paths(file)
    if not all(os.path.lexists(folder / each) for each in _unencodable(table)):
        _check_encoding(file, content)
    return table


def _check_encoding(file: Path, content: bytes) -> None:
    try:
        content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{file} is not text in UTF-8 (byte {error.start}): save it as UTF-8") from error


def _unencodable(value: object) -> list[str]:
    """Return the texts in a table that UTF-8 cannot encode, keys too."""
    if isinstance(value, str):
        return [value] if any("\ud800" <= character <= "\udfff" for character in value) else []
    parts: list[object] = []
    if isinstance(value, dict):
        parts = [*value, *value.values()]
    elif isinstance(value, list):
        parts = value
    return [text for part in parts for text in _unencodable(part)]


def _check_runs(recipe: Recipe, origin: ValueOrigin) -> None:
    """Validate the changes and the plan of every run of a comparison."""
    step = recipe.last_training
    if recipe.compare is None or step is None or step.training is None:
        return
    for index, run in enumerate(recipe.compare.runs):
        with located(origin.locate(f"compare.runs[{index}].changes")):
            tables = changed_tables(recipe, run.changes)
            for name in run.changes:
                STEPS[name].validate(tables[name], tables)
    if any(each.comparison.incomparable(recipe.tables[each.table]) for each in recipe.steps):
        return  # `run` ignores [compare], and `compare` rejects the recipe
    for index, run in enumerate(recipe.compare.runs):
        if run.plan is None:
            continue  # trained as the recipe says
        if step.training.with_plan is not None:
            planned = step.training.with_plan(recipe.tables[step.table], run.plan)
            with located(origin.locate(step.table)):
                step.validate(planned, recipe.tables)
        else:
            raise InputError(
                f"{origin.locate(f'compare.runs[{index}]')} has the plan {run.plan}, and with [{step.table}] all runs "
                "are trained as the recipe says: leave the plan out"
            )


def _check_tasks(recipe: Recipe, origin: ValueOrigin) -> None:
    """Validate that tasks have distinct names, start from tasks above them, and name languages that the model has."""
    titles = [entry.title for entry in recipe.tasks]
    languages = recipe.languages
    for index, entry in enumerate(recipe.tasks):
        key = f"tasks[{index}]"
        if entry.title in titles[:index]:
            raise InputError(f"{origin.locate(key)} is called {entry.title!r}, as is one above it: give it a name")
        if entry.start is not None and entry.start not in titles[:index]:
            raise InputError(
                f"{origin.locate(f'{key}.start')} is {entry.start!r}, and no task above it is called so: name one of "
                f"them ({', '.join(titles[:index]) or 'there is none'})"
            )
        if entry.start is not None:
            first = recipe.tasks[titles.index(entry.start)]
            with located(f"{origin.locate(f'{key}.start')} is {first.title!r}"):
                replace(first, keep_encoders=True)  # raises for a task that leaves no fine-tuned encoder
        for name in ("language", "through"):
            value = getattr(entry, name)
            if value is not None and not languages:
                raise InputError(
                    f"{origin.locate(f'{key}.{name}')} is {value!r}, and the model has one language: leave it out, or "
                    "add a table for two languages"
                )
            if value is not None and value not in languages:
                raise InputError(
                    f"{origin.locate(f'{key}.{name}')}: there is no language {value!r}: {suggestion(value, languages)}"
                )
        if entry.through is not None and entry.through == entry.language:
            raise InputError(
                f"{origin.locate(f'{key}.through')} is {entry.through!r}, the language that it is trained in: name the "
                "other one, or leave it out"
            )
        if languages and entry.language is None:
            raise InputError(
                f"{origin.of(key)}: [{key}] lacks language, the one to train in: give one of {', '.join(languages)}"
            )
