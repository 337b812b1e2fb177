"""`relexify grid`: which k and τ suit a language."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, TypeVar

import typer

from relexify.cli.console import emit
from relexify.cli.options import Device, Recipe, Settings, check_texts, chosen_device, say_loading
from relexify.cli.progress import bars
from relexify.cli.summary import print_rows, print_summary
from relexify.errors import InputError

__all__ = ["grid"]

Number = TypeVar("Number", int, float)


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
        int | None,
        typer.Option(help="Train probes on N examples, evenly spaced in the file.", metavar="N", show_default=False),
    ] = None,
    settings: Settings = None,
    device: Device = "auto",
) -> None:
    """Score every combination of k and τ before training, on held-out text and with linear probes.

    The neighbours are searched once. Finished cells are kept in the recipe's output folder: if interrupted, run the
    same command again to resume.

    Example: relexify grid wechsel-roberta --nli xnli/de.dev.tsv xnli/de.test.tsv
    """
    from relexify.recipes.file.recipe import read_recipe

    read = read_recipe(recipe, settings or ())
    if "transfer" not in read.tables:
        raise InputError(f"{recipe} has no table [transfer]: the grid needs its model, text and evidence")
    counts = _parse_numbers(neighbours, "--neighbours", int, "whole numbers: write them as 1,10,50")
    heats = _parse_numbers(temperatures, "--temperatures", float, "numbers: write them as 0.1,1")
    check_texts((read.corpus, read.held_out))
    say_loading()
    from relexify.systems.transfer.grid.cells import GridSearch, grid_rows
    from relexify.systems.transfer.grid.run import run_grid

    search = GridSearch(
        replace(read.tables["transfer"], device=chosen_device(device)),
        neighbours=counts,
        temperatures=heats,
        nli=nli,
        pos=pos,
        training_examples=examples,
    )
    with bars():
        result = run_grid(search)
    print_rows("Before training", grid_rows(result))
    print_summary([f"best: k = {result.best.neighbours}, τ = {result.best.temperature}"])
    emit(grid=result)


def _parse_numbers(text: str, option: str, kind: Callable[[str], Number], expected: str) -> list[Number]:
    try:
        return [kind(part) for part in text.split(",")]
    except ValueError as error:
        raise InputError(f"{option} {text!r} is not a list of {expected}") from error
