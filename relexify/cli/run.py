"""`relexify run` and `relexify compare`: whole runs out of a recipe file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from relexify.cli.console import results, table
from relexify.cli.device import chosen_device
from relexify.cli.progress import bars
from relexify.cli.summary import print_alignment, print_curve, print_effort, print_measured, print_scores, print_tokens

__all__ = ["compare", "run"]

Recipe = Annotated[Path, typer.Argument(help="A TOML file; those in recipes/ are examples.")]
Changes = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a value, such as training.steps=500. Repeatable."),
]
Device = Annotated[str, typer.Option(help="Where to search and score: cpu, cuda, or auto.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the output of another run.")]


def run(recipe: Recipe, set_: Changes = None, device: Device = "auto", overwrite: Overwrite = False) -> None:
    """Transfer a model, train it on and measure it on tasks, as RECIPE says; stopped, the same command goes on.

    Example: relexify run recipes/wechsel-gpt2.toml --set corpus=swahili.txt --set training.steps=5000
    """
    from relexify.recipes.recipe import read_recipe
    from relexify.recipes.run import run_recipe
    from relexify.recipes.tasks import output_scores
    from relexify.reports import task_result_rows
    from relexify.systems.trelm.scores import trelm_scores
    from relexify.training.result import TrainingResult

    read = read_recipe(recipe, set_ or ())
    with bars():
        result = run_recipe(read, device=chosen_device(device), overwrite=overwrite)
    if isinstance(result, TrainingResult):
        print_curve(result.curve, result.selected)
        print_effort(result)
    else:
        print_tokens(result.graft.report.origins)
        print_alignment(result.rotation)
        print_scores(result.scores)
    if "trelm" in read.tables:
        print_measured(trelm_scores(read.output))
    if measured := output_scores(read.output, read.tasks):
        _show("Tasks (the arrow points to where scores are better)", task_result_rows(measured))
    results.print(f"\nThe model is in [bold]{escape(str(result.output))}[/]")


def compare(recipe: Recipe, set_: Changes = None, device: Device = "auto", overwrite: Overwrite = False) -> None:
    """Train several initialisations on the same text in the same order, and show which learns fastest.

    Writes comparison.md, comparison.json and curves.svg into the recipe's output folder. Finished runs are kept: add
    runs or seeds to the recipe and give the command again. Where the recipe has tasks, every run is measured on them
    before training and after it; with [bilingual], after it, and both languages are shown stage by stage.

    Example: relexify compare recipes/smollm2-swahili.toml --set "compare.seeds=[0, 1, 2]"
    """
    from relexify.recipes.compare.run import run_comparison
    from relexify.recipes.recipe import read_recipe
    from relexify.reports import effort_rows, reach_rows, score_rows, stage_rows, task_rows

    read = read_recipe(recipe, set_ or ())
    with bars():
        comparisons = run_comparison(read, device=chosen_device(device), overwrite=overwrite)
    for comparison in comparisons:
        of_both = ", mean of both languages" if comparison.earlier else ""
        _show(f"{comparison.title}: bits per byte{of_both} (lower is better)", score_rows(comparison))
        if comparison.earlier:
            _show("Bits per byte of both languages, by stage (lower is better)", stage_rows(comparison))
        if comparison.tasks:
            _show("Tasks (the arrow points to where scores are better)", task_rows(comparison))
        if len(comparison.curves) > 1:
            which = "best" if comparison.keeps_best else "final"
            _show(f"Steps to reach another run's {which} score", reach_rows(comparison))
            _show("Training effort", effort_rows(comparison))
    results.print(f"\nTables and curves are in [bold]{escape(str(read.output))}[/]")


def _show(title: str, rows: list[list[str]]) -> None:
    header, *body = rows
    shown = table(title, *header)
    for row in body:
        shown.add_row(*map(_marked, row))
    results.print(shown)


def _marked(cell: str) -> str:
    """A cell for the terminal; what stands between two `**` is bold."""
    text = cell.removeprefix("**").removesuffix("**")
    return escape(cell) if text == cell else f"[bold]{escape(text)}[/]"
