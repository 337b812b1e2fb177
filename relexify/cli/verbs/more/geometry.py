"""`relexify geometry`: plot embeddings, hidden states and the neighbours of a word."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from relexify.cli.console import emit, results
from relexify.cli.options import Overwrite, Seed, option
from relexify.cli.summary import print_rows
from relexify.errors import InputError

if TYPE_CHECKING:
    from relexify.reports.geometry.report import GeometryResult

__all__ = ["geometry"]


def geometry(
    models: Annotated[list[str], typer.Argument(help="Model folders or Hub names, plotted side by side.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Plot of the embeddings to write: .svg or .png.")
    ] = Path("embeddings.svg"),
    text: Annotated[str | None, option("Text on which hidden states are compared, layer by layer.")] = None,
    layers: Annotated[Path, typer.Option(help="Plot of the layers to write, with --text.")] = Path("layers.svg"),
    states: Annotated[Path | None, option("Scatter plot of the hidden states to write, with --text.")] = None,
    word: Annotated[str | None, option("Word whose neighbours in the embeddings are plotted.")] = None,
    vectors: Annotated[
        list[Path] | None, typer.Option(help="Word vectors to compare the neighbours in, with --word.")
    ] = None,
    neighbours: Annotated[Path, typer.Option(help="Plot of the neighbours to write, with --word.")] = Path(
        "neighbours.svg"
    ),
    seed: Seed = 0,
    overwrite: Overwrite = False,
) -> None:
    """Plot the embeddings of MODELS on their first three principal components, with the explained variance.

    Tokens of a compressed model are coloured by the last digit of their code. With --text, also plot the similarity of
    hidden states of different tokens and of the same token, layer by layer; with --states, the states themselves. With
    --word, also plot the cosines of a word with all others, and its nearest words.

    Example: relexify geometry gpt2-swahili gpt2-swahili-small -o embeddings.svg --text held.txt

    Example: relexify geometry bert-base-cased --word genes --vectors cc.en.300.bin
    """
    from relexify.storage.files import check_output

    spaces = [*models, *map(str, vectors or ())]
    if len(set(spaces)) < len(spaces):
        raise InputError("a model or file is given twice: give each one once")
    # A short name for each, or the full one if two folders have the same name.
    short = [Path(space).name or space for space in spaces]
    names = {name if short.count(name) == 1 else space: space for name, space in zip(short, spaces, strict=True)}
    if states and not text:
        raise InputError("--states plots hidden states of a text: give the text with --text")
    if vectors and not word:
        raise InputError("--vectors are for the neighbours of a word: give the word with --word")
    plots = [output, *([layers] if text else []), *([states] if states else []), *([neighbours] if word else [])]
    if len(set(plots)) < len(plots):
        raise InputError("two plots have the same name: give each of them its own")
    for plot in plots:
        check_output(plot, models, text, *(vectors or ()), overwrite=overwrite, file=True)
    from relexify.reports.geometry.report import GeometryPlots, plot_geometry

    named = list(names.items())
    found = plot_geometry(
        dict(named[: len(models)]),
        GeometryPlots(output, layers, states, neighbours),
        text=text,
        word=word,
        vectors=dict(named[len(models) :]),
        seed=seed,
    )
    _print(found)
    results.print(f"Plotted in [bold]{escape(' and '.join(map(str, plots)))}[/]", soft_wrap=True)
    emit(plots=plots, explained_variance=found.explained_variance, similarities=found.similarities)


def _print(found: GeometryResult) -> None:
    rows = [["model", "variance explained by 3 axes", "first layer", "last layer", "same token, last layer"]]
    for name, explained in found.explained_variance.items():
        layers = found.similarities.get(name)
        cosines = [layers.inter[0], layers.inter[-1], layers.intra[-1]] if layers else []
        rows.append([name, f"{explained:.3f}", *([f"{value:.3f}" for value in cosines] or ["–"] * 3)])
    print_rows("Geometry", rows)
