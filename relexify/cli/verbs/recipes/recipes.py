"""`relexify run`, `relexify compare` and `relexify recipes`: runs described by a recipe file."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from relexify.cli.console import emit, print_table, results, table
from relexify.cli.options import (
    Device,
    DryRun,
    Overwrite,
    Recipe,
    Settings,
    check_texts,
    chosen_device,
    option,
    say_loading,
)
from relexify.cli.progress import bars
from relexify.cli.summary import (
    print_measured,
    print_model_folder,
    print_next_steps,
    print_plan,
    print_rows,
    print_summary,
)
from relexify.progress import count_of
from relexify.storage.notes import Notes

if TYPE_CHECKING:
    from relexify.recipes.file import recipe as recipe_files
    from relexify.reports import TaskScores

__all__ = ["compare", "recipes", "run"]

TASKS_TITLE = "Tasks (the arrow points to better scores)"


def run(
    context: typer.Context,
    recipe: Recipe,
    settings: Settings = None,
    device: Device = "auto",
    overwrite: Overwrite = False,
    dry_run: DryRun = False,
) -> None:
    """Run RECIPE: transfer a model, train it and evaluate it on tasks. If interrupted, run it again to resume.

    Example: relexify run wechsel-gpt2 --set corpus=swahili.txt --set training.steps=5000
    """
    read = _read(recipe, settings)
    say_loading()
    from relexify.recipes.run import prepare_run, run_recipe
    from relexify.recipes.tasks import output_scores
    from relexify.storage.notes import read_notes

    if dry_run:
        prepared = prepare_run(read, device=chosen_device(device), overwrite=overwrite)
        steps = [(f"[{step.table}]", step.summary) for step in read.steps]
        tasks = [("[[tasks]]", entry.title) for entry in read.tasks]
        state = "is up to date" if prepared.is_finished else "is written"
        text = ("text", _describe_text(read))
        print_plan([("model", read.model), text, *steps, *tasks, ("output", f"{read.output} {state}")])
        return
    with bars():
        result = run_recipe(read, device=chosen_device(device), overwrite=overwrite)
    notes, measured = read_notes(read.output), output_scores(read.output, read.tasks)
    _print_run(read, result, notes, measured)
    _print_next_steps(context, read, result, notes)
    emit(output=read.output, notes=notes, tasks=measured)


def compare(
    recipe: Recipe,
    only: Annotated[list[str] | None, option("Train only the run of this name; repeat for more. Default: all.")] = None,
    settings: Settings = None,
    device: Device = "auto",
    overwrite: Overwrite = False,
    dry_run: DryRun = False,
) -> None:
    """Train several initialisations on the same text in the same order, and show which learns fastest.

    Writes comparison.md, comparison.json, report.html and curves.svg into the recipe's output folder. Finished runs are
    kept: add runs or seeds to the recipe, or name others with --only, and run the command again. If the recipe has
    tasks, every run is scored on them before and after training.

    Example: relexify compare smollm2-swahili --set "compare.seeds=[0, 1, 2]"
    """
    read = _read(recipe, settings)
    from relexify.recipes.compare.checks import check_comparable

    check_comparable(read)
    say_loading()
    from relexify.recipes.compare.prepare import prepare_comparison
    from relexify.recipes.compare.run import run_comparison
    from relexify.reports import conclude, effort_rows, reach_rows, score_rows, stage_rows, task_notes, task_rows

    if dry_run:
        prepared = prepare_comparison(read, only=only or (), device=chosen_device(device), overwrite=overwrite)
        steps = f"to be trained for {count_of(prepared.training.steps, 'step')}"
        states = [(trial.title, "finished" if trial.is_trained() else steps) for trial in prepared.trials_to_train]
        tables = [(f"[{step.table}]", step.summary) for step in read.steps]
        text = ("text", _describe_text(read))
        print_plan([("model", read.model), text, *tables, *states, ("output", read.output)])
        return
    with bars():
        comparisons = run_comparison(read, only=only or (), device=chosen_device(device), overwrite=overwrite)
    for comparison in comparisons:
        mean = ", mean of both languages" if comparison.languages else ""
        print_rows(f"{comparison.title}: bits per byte{mean} (lower is better)", score_rows(comparison))
        if comparison.languages and comparison.earlier:
            print_rows("Bits per byte of both languages, by stage (lower is better)", stage_rows(comparison))
        if comparison.tasks:
            print_rows(TASKS_TITLE, task_rows(comparison))
            print_summary(f"{run}, {note}" for run, found in comparison.tasks.items() for note in task_notes(found))
        if len(comparison.curves) > 1:
            score = "best" if comparison.keeps_best else "final"
            print_rows(f"Steps to reach another run's {score} score", reach_rows(comparison))
            print_rows("Training effort", effort_rows(comparison))
            print_summary(conclusion.text for conclusion in conclude(comparison))
    results.print(f"\nTables and curves are in [bold]{escape(str(read.output))}[/]")
    emit(output=read.output, comparisons=comparisons)


def recipes(
    name: Annotated[str | None, typer.Argument(help="A recipe to print; all of them are listed if not given.")] = None,
) -> None:
    """List the recipes that come with relexify, or print one of them.

    The comments of a recipe say which files it needs. Paths in it are relative to the current folder.

    Example: relexify recipes wechsel-gpt2 > mine.toml
    """
    import tomllib

    from relexify.recipes.file.named import find_recipe, shipped_recipes

    if name is not None:
        text = find_recipe(name).read_text(encoding="utf-8")
        results.print(text, end="", markup=False, highlight=False, soft_wrap=True)
        emit(recipe=text)
        return
    shipped = {each: tomllib.loads(path.read_text(encoding="utf-8")) for each, path in shipped_recipes().items()}
    shown = table("Recipes", "name", "for", "title")
    shown.columns[1].justify = shown.columns[2].justify = "left"
    for each, content in shipped.items():
        shown.add_row(each, "run, compare" if "compare" in content else "run", escape(content["title"]))
    print_table(shown)
    emit(recipes={each: content["title"] for each, content in shipped.items()})


def _read(recipe: Path, settings: list[str] | None) -> recipe_files.Recipe:
    """Read a recipe, and validate names of models and its text; only then torch is imported, which takes seconds."""
    from relexify.recipes.file.named import find_recipe

    find_recipe(recipe)  # a misspelt name is rejected before the schema is imported
    from relexify.pretrained.names import check_name
    from relexify.recipes.file.recipe import read_recipe
    from relexify.systems.transfer.checks import check_names

    read = read_recipe(recipe, settings or ())
    check_name(read.model)
    if "transfer" in read.tables:
        check_names(read.tables["transfer"])
    check_texts((read.corpus, read.held_out))
    return read


def _describe_text(read: recipe_files.Recipe) -> str:
    """Name the text of a recipe, with what is left out of it."""
    from relexify.text import Corpus

    corpus = Corpus.open(read.corpus)
    left_out = corpus.without(Corpus.open(read.held_out)).describe_left_out() if read.held_out else ""
    return corpus.describe() + (f"; {left_out}" if left_out else "")


def _print_run(read: recipe_files.Recipe, result: Any, notes: Notes, measured: Sequence[TaskScores]) -> None:
    """Print the results of all steps, the last one in full, and the scores on tasks."""
    from relexify.reports import task_notes, task_result_rows
    from relexify.systems.transfer.assessment.summary import compare_with_transfer

    *first, last = read.steps
    for step in first:
        print_summary(step.report.summarise_notes(notes))
    print_summary(last.report.summarise(result))
    if set(read.tables) == {"transfer", "training"}:  # step 0 is the model that the transfer scored
        print_summary(compare_with_transfer(notes, result.curve))
    for step in read.steps:
        if step.report.scores is not None:
            print_measured(step.report.scores(read.output))
    if measured:
        print_rows(TASKS_TITLE, task_result_rows(measured))
        print_summary(task_notes(measured))
    print_model_folder(read.output)


def _print_next_steps(context: typer.Context, read: recipe_files.Recipe, result: Any, notes: Notes) -> None:
    """Print what to do after the last step; nothing after a system that trains more than once."""
    from relexify.reports.next_steps import after_training, after_transfer

    last = read.steps[-1]
    if last.training is None:
        print_next_steps(after_transfer(read.output, notes, corpus=read.corpus, held_out=read.held_out))
    elif last.training.table:
        again = partial(_changed_command, context, last.training.table)
        languages = last.languages(read.tables[last.table])
        found = after_training(
            read.output, notes, result.curve, again=again, held_out=read.held_out, languages=languages
        )
        print_next_steps(found)


def _changed_command(context: typer.Context, table: str, output: str, **changes: object) -> str:
    """Return a command as it was given, with another output, and other values for some keys of a recipe table."""
    from relexify.reports.transfer_command import repeated_option

    words = ["relexify", str(context.info_name)]
    values = {"output": output, **{f"{table}.{name}": value for name, value in changes.items()}}
    for parameter in context.command.params:
        name = str(parameter.name)
        given, source = context.params.get(name), context.get_parameter_source(name)
        if name == "settings":
            kept = [text for text in given or () if text.partition("=")[0].strip() not in values]
            words += repeated_option(parameter.opts[0], [*kept, *(f"{key}={value}" for key, value in values.items())])
        elif parameter.param_type_name == "argument":
            words.append(str(given))
        elif source is not None and source.name == "COMMANDLINE":
            words += [parameter.opts[0]] if given is True else repeated_option(parameter.opts[0], given)
    return shlex.join(words)
