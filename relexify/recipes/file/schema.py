"""A whole run as a TOML file: what is transferred, how it is trained on, and what is compared.

    title = "WECHSEL for GPT-2"
    output = "gpt2-swahili"
    model = "gpt2"
    corpus = ["$TEXT/sw.train.txt.xz"]

    [transfer]                     # the fields of Transfer
    method = "wechsel"

    [fresh]                        # begin with random parameters; fields of the model's config that are to change
    num_hidden_layers = 8

    [compress]                     # the fields of Compression
    k = 3

    [training]                     # the fields of Training
    steps = 250_000

    [bilingual]                    # the fields of BilingualOptions: RAMEN's second step
    languages = ["en", "sw"]

    [trelm]                        # the fields of Trelm: its three phases
    languages = ["en", "sw"]

    [compare]                      # the fields of Comparing
    runs = ["wechsel", "transinner"]

    [[tasks]]                      # the fields of TaskEntry
    task = "ner"
    train = "wikiann/train.tsv"
    test = "wikiann/test.tsv"

Paths are relative to the file, those of overrides to the current folder.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from relexify.errors import InputError
from relexify.evidence.vectors.options import validate_vector_training
from relexify.methods.registry import METHODS
from relexify.recipes.file.comparing import RUNS, Comparing, Run, method_names, read_comparing
from relexify.recipes.file.overriding import override
from relexify.recipes.file.paths import Place, model_name, written_model, written_path
from relexify.recipes.file.table_checks import check_tables
from relexify.recipes.file.task_entries import TaskEntry, check_task_languages, read_tasks, written_task
from relexify.recipes.file.trelm_table import read_trelm, written_trelm
from relexify.recipes.file.values import check_keys, choose, convert, convert_fields
from relexify.recipes.file.writing import differing, toml_text, written_texts
from relexify.systems.bilingual.options import RAMEN, BilingualOptions
from relexify.systems.compression.options import Compression
from relexify.systems.transfer.options import Transfer
from relexify.systems.trelm.options import Trelm
from relexify.training.plan import Training, plan_stages

__all__ = ["RUNS", "Comparing", "RecipeFile", "Run", "TaskEntry", "read_recipe", "recipe_text"]


@dataclass(frozen=True)
class RecipeFile:
    """All that a recipe file says; paths are absolute.

    Attributes:
        title: For people.
        output: The folder to write.
        model: What is transferred, or trained on where there is no transfer: a folder, a Hub name, or `smollm2-135m`.
        corpus: Text in the new language, one name or several.
        held_out: Text to measure on; where none is given, a part of the corpus is kept aside.
        transfer: How the model gets its new vocabulary, with the model, output and texts above.
        fresh: Where it begins with random parameters instead of its own, the fields of its config that are changed.
        compress: How its embedding is compressed, after the transfer and before the training.
        training: How it is trained on.
        bilingual: How it is joined with the model that it came from, after that.
        trelm: How it goes over to the new language by the phases of TreLM.
        compare: What is compared.
        tasks: What trained models are measured on.
        source: The file it was read from, of no account when two recipes are compared.
    """

    title: str
    output: Path
    model: str
    corpus: str | tuple[str, ...]
    held_out: str | tuple[str, ...] | None = None
    transfer: Transfer | None = None
    fresh: Mapping[str, Any] | None = None
    compress: Compression | None = None
    training: Training | None = None
    bilingual: BilingualOptions | None = None
    trelm: Trelm | None = None
    compare: Comparing | None = None
    tasks: tuple[TaskEntry, ...] = ()
    source: Path = field(default=Path(), compare=False)


_TOP = ("title", "output", "model", "corpus", "held_out")
_TABLES = ("transfer", "fresh", "compress", "training", "bilingual", "trelm", "compare", "tasks")
_ELSEWHERE = dict.fromkeys(("model", "output", "corpus", "held_out"), "write it above the first table") | {
    "overwrite": "it is for the command line alone"
}
_SHARED_WITH_STAGES = ("learning_rate", "schedule", "optimiser")


def read_recipe(path: str | Path, overrides: Sequence[str] = ()) -> RecipeFile:
    """Read a recipe.

    Args:
        path: The file.
        overrides: `"training.steps=500"` and the like, in place of what the file says; later ones win. What is no
            value of TOML is taken as text.

    Raises:
        InputError: The file cannot be read, an override has no such form, a key is unknown or missing, or a value is
            of another type or impossible.
    """
    file = Path(path)
    table, overridden = override(_parse(file), overrides)
    top = Place(file, overridden=overridden)
    check_keys(table, (*_TOP, *_TABLES), ("output", "model", "corpus"), top)
    places = {key: top.below(key) for key in table}
    recipe = RecipeFile(
        title=convert(table["title"], str, places["title"]) if "title" in table else file.stem,
        output=convert(table["output"], Path, places["output"]),
        model=model_name(convert(table["model"], str, places["model"]), places["model"]),
        corpus=convert(table["corpus"], Any, places["corpus"]),
        held_out=convert(table["held_out"], Any, places["held_out"]) if "held_out" in table else None,
        fresh=check_keys(table["fresh"], table["fresh"], (), places["fresh"]) if "fresh" in table else None,
        compress=_compression(table["compress"], places["compress"]) if "compress" in table else None,
        training=_training(table["training"], places["training"]) if "training" in table else None,
        bilingual=_bilingual(table["bilingual"], places["bilingual"]) if "bilingual" in table else None,
        trelm=read_trelm(table["trelm"], places["trelm"], _training) if "trelm" in table else None,
        compare=read_comparing(table["compare"], places["compare"]) if "compare" in table else None,
        tasks=read_tasks(table["tasks"], places["tasks"]) if "tasks" in table else (),
        source=file,
    )
    _check_plans(recipe, top)
    check_task_languages(recipe.tasks, recipe.bilingual.languages if recipe.bilingual else (), top.below("tasks"))
    check_tables(table, top)
    return replace(recipe, transfer=_transfer(table["transfer"], recipe, top)) if "transfer" in table else recipe


def recipe_text(recipe: RecipeFile) -> str:
    """The recipe as TOML, with absolute paths, so that it can be written anywhere; defaults are left out.

    Raises:
        InputError: A part of it is an object that no file can hold.
    """
    table: dict[str, Any] = {
        "title": recipe.title,
        "output": written_path(recipe.output),
        "model": written_model(recipe.model),
        "corpus": written_texts(recipe.corpus, "corpus"),
    }
    if recipe.held_out is not None:
        table["held_out"] = written_texts(recipe.held_out, "held_out")
    if recipe.transfer is not None:
        table["transfer"] = differing(recipe.transfer, leave_out=(*_ELSEWHERE, "options")) | recipe.transfer.options
        if recipe.transfer.tokenizer is not None:
            table["transfer"]["tokenizer"] = written_model(recipe.transfer.tokenizer)
    if recipe.fresh is not None:
        table["fresh"] = dict(recipe.fresh)
    if recipe.compress is not None:
        table["compress"] = differing(recipe.compress)
        if recipe.compress.codes_from is not None:
            table["compress"]["codes_from"] = written_model(recipe.compress.codes_from)
    if recipe.training is not None:
        table["training"] = _written_training(recipe.training, Training())
    if recipe.bilingual is not None:
        table["bilingual"] = differing(recipe.bilingual, leave_out=("training",))
        table["bilingual"]["training"] = _written_training(recipe.bilingual.training, RAMEN)
    if recipe.trelm is not None:
        table["trelm"] = written_trelm(recipe.trelm, _written_training)
    if recipe.compare is not None:
        runs = [run.name if RUNS.get(run.name) == run else differing(run) for run in recipe.compare.runs]
        table["compare"] = {"runs": runs} | differing(recipe.compare, leave_out=("runs",))
    if recipe.tasks:
        table["tasks"] = [written_task(entry) for entry in recipe.tasks]
    return toml_text(table)


def _parse(file: Path) -> dict[str, Any]:
    try:
        text = file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"{file} cannot be read ({error.strerror}): give the path of a recipe") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{file} is not text in UTF-8 (byte {error.start}): write it anew as UTF-8") from error
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        reason, _, place = str(error).partition(" (at ")
        line = re.match(r"line (\d+)", place)
        number = int(line[1]) if line else len(text.splitlines())
        raise InputError(f"{file}, line {number}: this is not TOML ({reason}): correct the line") from error


def _transfer(table: object, recipe: RecipeFile, top: Place) -> Transfer:
    place = top.below("transfer")
    # Options of methods are keys of [transfer]; all methods' are, because the runs of a comparison share the table.
    own: dict[str, Any] = {}
    if isinstance(table, dict):
        kinds = [method.options for method in METHODS.values() if method.options is not None]
        for kind in kinds:
            names = [entry.name for entry in fields(kind) if entry.name in table]
            own |= convert_fields({name: table[name] for name in names}, kind, place)
        table = {key: value for key, value in table.items() if key not in own}
    values = convert_fields(table, Transfer, place, elsewhere=_ELSEWHERE | {"options": "write them into [transfer]"})
    values["options"] = own
    if "tokenizer" in values:
        values["tokenizer"] = model_name(values["tokenizer"], place.below("tokenizer"))
    transfer = Transfer(
        model=recipe.model, output=recipe.output, corpus=recipe.corpus, held_out=recipe.held_out, **values
    )
    choose(transfer.method, method_names(), place.below("method"), "method")
    try:
        validate_vector_training(transfer.vectors)
    except InputError as error:
        raise InputError(f"{place.below('vectors')}: {error}") from error
    return transfer


def _compression(table: object, place: Place) -> Compression:
    values = convert_fields(table, Compression, place)
    if "codes_from" in values:
        values["codes_from"] = model_name(values["codes_from"], place.below("codes_from"))
    return Compression(**values)


def _bilingual(table: object, place: Place) -> BilingualOptions:
    """The step with both languages; what its training does not say is RAMEN's."""
    from relexify.pretrained.languages import check_languages

    own = check_keys(table, [field.name for field in fields(BilingualOptions)], (), place)
    values = convert_fields({key: value for key, value in own.items() if key != "training"}, BilingualOptions, place)
    step = BilingualOptions(**values)
    try:
        check_languages(step.languages)
    except InputError as error:
        raise InputError(f"{place.below('languages')}: {error}") from error
    if "training" not in own:
        return step
    return replace(step, training=_training(own["training"], place.below("training"), RAMEN))


def _written_training(training: Training, usual: Training) -> dict[str, Any]:
    shared = {name: getattr(training, name) for name in _SHARED_WITH_STAGES}
    stages = [differing(stage, defaults=shared) for stage in training.stages]
    table = differing(training, leave_out=("stages",), defaults=vars(usual))
    return table | ({"stages": stages} if stages else {})


def _training(table: object, place: Place, usual: Training | None = None) -> Training:
    """The training; a stage that gives no learning rate, schedule or optimiser takes that of the training."""
    usual = usual or Training()
    if isinstance(table, dict) and isinstance(table.get("stages"), list):
        shared = {name: table.get(name, getattr(usual, name)) for name in _SHARED_WITH_STAGES}
        stages = [shared | stage if isinstance(stage, dict) else stage for stage in table["stages"]]
        table = table | {"stages": stages}
    values = convert_fields(table, Training, place)
    training = replace(usual, **values)
    if training.stages:
        total = sum(stage.steps for stage in training.stages)
        if values.get("steps", total) != total:
            raise InputError(
                f"{place.below('steps')} is {training.steps}, but the stages have {total} steps together: "
                "leave steps out, or change the stages"
            )
        training = replace(training, steps=total)
    _check_stages(training, place)
    return training


def _check_plans(recipe: RecipeFile, top: Place) -> None:
    """Refuse a training that is too short for the plan of one of the runs."""
    if recipe.training is None or recipe.training.stages:
        return
    for index, run in enumerate(recipe.compare.runs if recipe.compare else ()):
        if recipe.bilingual is not None and run.plan != "direct":
            raise InputError(
                f"{top.below('compare').below('runs').at(index)} has the plan {run.plan}, and with [bilingual] all "
                "runs are trained as [training] says: leave the plan out"
            )
        _check_stages(replace(recipe.training, plan=run.plan), top.below("training"))


def _check_stages(training: Training, place: Place) -> None:
    try:
        plan_stages(training)
    except InputError as error:
        raise InputError(f"{place}: {error}") from error
