"""`relexify run` and `relexify compare`: runs described by a recipe file."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape

from relexify.cli.console import results
from relexify.cli.options import Device, Overwrite, Recipe, Settings, chosen_device
from relexify.cli.progress import bars
from relexify.cli.summary import print_measured, print_model_folder, print_rows, print_summary

__all__ = ["compare", "run"]

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
    print_summary(read.steps[-1].summarise(result))
    for step in read.steps:
        if step.scores is not None:
            print_measured(step.scores(read.output))
    if measured := output_scores(read.output, read.tasks):
        print_rows(TASKS, task_result_rows(measured))
    print_model_folder(read.output)


def compare(
    recipe: Recipe,
    only: Annotated[
        list[str] | None,
        typer.Option(help="Train only the run of this name; repeat for more. Default: all.", show_default=False),
    ] = None,
    settings: Settings = None,
    device: Device = "auto",
    overwrite: Overwrite = False,
) -> None:
    """Train several initialisations on the same text in the same order, and show which learns fastest.

    Writes comparison.md, comparison.json and curves.svg into the recipe's output folder. Finished runs are kept: add
    runs or seeds to the recipe, or name others with --only, and run the command again. If the recipe has tasks, every
    run is scored on them before and after training.

    Example: relexify compare recipes/smollm2-swahili.toml --set "compare.seeds=[0, 1, 2]"
    """
    from relexify.recipes.compare.run import run_comparison
    from relexify.recipes.recipe import read_recipe
    from relexify.reports import effort_rows, reach_rows, score_rows, stage_rows, task_rows

    read = read_recipe(recipe, settings or ())
    with bars():
        comparisons = run_comparison(read, only=only or (), device=chosen_device(device), overwrite=overwrite)
    for comparison in comparisons:
        mean = ", mean of both languages" if comparison.languages else ""
        print_rows(f"{comparison.title}: bits per byte{mean} (lower is better)", score_rows(comparison))
        if comparison.languages and comparison.earlier:
            print_rows("Bits per byte of both languages, by stage (lower is better)", stage_rows(comparison))
        if comparison.tasks:
            print_rows(TASKS, task_rows(comparison))
        if len(comparison.curves) > 1:
            score = "best" if comparison.keeps_best else "final"
            print_rows(f"Steps to reach another run's {score} score", reach_rows(comparison))
            print_rows("Training effort", effort_rows(comparison))
    results.print(f"\nTables and curves are in [bold]{escape(str(read.output))}[/]")
