"""`relexify grid`: which k and τ suit a language, before anything is trained."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from relexify.cli.console import results, table
from relexify.cli.device import chosen_device
from relexify.cli.progress import bars
from relexify.errors import InputError

__all__ = ["grid"]


def grid(
    recipe: Annotated[Path, typer.Argument(help="A TOML file with a table [transfer]; its output takes the results.")],
    neighbours: Annotated[str, typer.Option(help="Values of k, separated by commas.")] = "1,10,50",
    temperatures: Annotated[str, typer.Option(help="Values of τ, separated by commas.")] = "0.1,1",
    nli: Annotated[
        tuple[str, str] | None, typer.Option(metavar="TRAIN TEST", help="Files of an NLI probe.", show_default=False)
    ] = None,
    pos: Annotated[
        tuple[str, str] | None,
        typer.Option(metavar="TRAIN TEST", help="Files of a POS probe: columns, or .conllu.", show_default=False),
    ] = None,
    examples: Annotated[int | None, typer.Option(help="Learn probes from the first so many examples.")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a value of the recipe. Repeatable."),
    ] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, or auto.")] = "auto",
) -> None:
    """Score every pair of k and τ with linear probes and on held-out text; the neighbours are searched once.

    Finished cells are kept in the recipe's output folder, and the same command goes on.

    Example: relexify grid recipes/wechsel-roberta.toml --nli xnli/de.dev.tsv xnli/de.test.tsv
    """
    from relexify.recipes.grid.cells import GridSearch, grid_rows
    from relexify.recipes.grid.run import run_grid
    from relexify.recipes.recipe import read_recipe

    read = read_recipe(recipe, set_ or ())
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
    header, *rows = grid_rows(result)
    shown = table("Before training", *header)
    for row in rows:
        shown.add_row(*map(escape, row))
    results.print(shown)
    best = result.best
    results.print(f"best: k = {best.neighbours}, τ = {best.temperature}", highlight=False)


def _numbers(text: str, option: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError as error:
        raise InputError(f"{option} {text!r} is not a list of numbers: write them as 1,10,50") from error
