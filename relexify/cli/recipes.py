"""`relexify run`, `relexify compare` and `relexify grid`: runs described by a recipe file."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

import typer
from rich.markup import escape

from relexify.cli.console import results, table
from relexify.cli.device import chosen_device
from relexify.cli.options import Device, Overwrite, Recipe, Settings
from relexify.cli.progress import bars
from relexify.cli.summary import print_measured, print_model_folder, print_training, print_transfer
from relexify.errors import InputError

__all__ = ["compare", "grid", "run"]

TASKS = "Tasks (the arrow points to better scores)"


def run(recipe: Recipe, settings: Settings = None, device: Device = "auto", overwrite: Overwrite = False) -> None:
    """Run RECIPE: transfer a model, train it and evaluate it on tasks. If interrupted, run it again to resume.

    Example: relexify run recipes/wechsel-gpt2.toml --set corpus=swahili.txt --set training.steps=5000
    """
    from relexify.recipes.recipe import read_recipe
    from relexify.recipes.run import run_recipe
    from relexify.recipes.tasks import output_scores
    from relexify.reports import task_result_rows

    read = read_recipe(recipe, settings or ())
    with bars():
        result = run_recipe(read, device=chosen_device(device), overwrite=overwrite)
    if hasattr(result, "curve"):
        print_training(result)
    else:
        print_transfer(result)
    for step in read.steps:
        if step.scores is not None:
            print_measured(step.scores(read.output))
    if measured := output_scores(read.output, read.tasks):
        _print_rows(TASKS, task_result_rows(measured))
    print_model_folder(read.output)


def compare(recipe: Recipe, settings: Settings = None, device: Device = "auto", overwrite: Overwrite = False) -> None:
    """Train several initialisations on the same text in the same order, and show which learns fastest.

    Writes comparison.md, comparison.json and curves.svg into the recipe's output folder. Finished runs are kept: add
    runs or seeds to the recipe and run the command again. If the recipe has tasks, every run is scored on them before
    and after training.

    Example: relexify compare recipes/smollm2-swahili.toml --set "compare.seeds=[0, 1, 2]"
    """
    from relexify.recipes.compare.run import run_comparison
    from relexify.recipes.recipe import read_recipe
    from relexify.reports import effort_rows, reach_rows, score_rows, stage_rows, task_rows

    read = read_recipe(recipe, settings or ())
    with bars():
        comparisons = run_comparison(read, device=chosen_device(device), overwrite=overwrite)
    for comparison in comparisons:
        mean = ", mean of both languages" if comparison.languages else ""
        _print_rows(f"{comparison.title}: bits per byte{mean} (lower is better)", score_rows(comparison))
        if comparison.languages and comparison.earlier:
            _print_rows("Bits per byte of both languages, by stage (lower is better)", stage_rows(comparison))
        if comparison.tasks:
            _print_rows(TASKS, task_rows(comparison))
        if len(comparison.curves) > 1:
            score = "best" if comparison.keeps_best else "final"
            _print_rows(f"Steps to reach another run's {score} score", reach_rows(comparison))
            _print_rows("Training effort", effort_rows(comparison))
    results.print(f"\nTables and curves are in [bold]{escape(str(read.output))}[/]")


def grid(
    recipe: Recipe,
    neighbours: Annotated[str, typer.Option(help="Values of k, separated by commas.")] = "1,10,50",
    temperatures: Annotated[str, typer.Option(help="Values of τ, separated by commas.")] = "0.1,1",
    nli: Annotated[
        tuple[str, str] | None, typer.Option(metavar="TRAIN TEST", help="Files for an NLI probe.", show_default=False)
    ] = None,
    pos: Annotated[
        tuple[str, str] | None,
        typer.Option(metavar="TRAIN TEST", help="Files for a POS probe: columns or .conllu.", show_default=False),
    ] = None,
    examples: Annotated[
        int | None, typer.Option(help="Train probes on the first N examples.", metavar="N", show_default=False)
    ] = None,
    settings: Settings = None,
    device: Device = "auto",
) -> None:
    """Score every combination of k and τ before training, on held-out text and with linear probes.

    The neighbours are searched once. Finished cells are kept in the recipe's output folder: if interrupted, run the
    same command again to resume.

    Example: relexify grid recipes/wechsel-roberta.toml --nli xnli/de.dev.tsv xnli/de.test.tsv
    """
    from relexify.recipes.recipe import read_recipe
    from relexify.systems.transfer.grid.cells import GridSearch, grid_rows
    from relexify.systems.transfer.grid.run import run_grid

    read = read_recipe(recipe, settings or ())
    if "transfer" not in read.tables:
        raise InputError(f"{recipe} has no table [transfer]: the grid needs its model, text and evidence")
    search = GridSearch(
        replace(read.tables["transfer"], device=chosen_device(device)),
        neighbours=[int(value) for value in _numbers(neighbours, "--neighbours")],
        temperatures=_numbers(temperatures, "--temperatures"),
        nli=nli,
        pos=pos,
        training_examples=examples,
    )
    with bars():
        result = run_grid(search)
    _print_rows("Before training", grid_rows(result))
    results.print(f"best: k = {result.best.neighbours}, τ = {result.best.temperature}", highlight=False)


def _numbers(text: str, option: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError as error:
        raise InputError(f"{option} {text!r} is not a list of numbers: write them as 1,10,50") from error


def _print_rows(title: str, rows: list[list[Any]]) -> None:
    header, *body = rows
    shown = table(title, *header)
    for row in body:
        # Markdown tables mark the best value with two stars.
        shown.add_row(
            *(f"[bold]{escape(cell.strip('*'))}[/]" if cell.startswith("**") else escape(cell) for cell in row)
        )
    results.print(shown)
