"""`relexify geometry`: plot embeddings and the similarity of hidden states."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from relexify.cli.console import emit, print_table, results, table
from relexify.cli.options import Overwrite, Seed
from relexify.errors import InputError

if TYPE_CHECKING:
    from relexify.reports import LayerSimilarities

__all__ = ["geometry"]

POSITIONS = 4_096
"""Tokens of text whose hidden states are compared."""


def geometry(
    models: Annotated[list[str], typer.Argument(help="Model folders or Hub names, plotted side by side.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Plot of the embeddings to write: .svg or .png.")
    ] = Path("embeddings.svg"),
    text: Annotated[
        str | None, typer.Option(help="Text on which hidden states are compared, layer by layer.", show_default=False)
    ] = None,
    layers: Annotated[Path, typer.Option(help="Plot of the layers to write, with --text.")] = Path("layers.svg"),
    seed: Seed = 0,
    overwrite: Overwrite = False,
) -> None:
    """Plot the embeddings of MODELS on their first three principal components, with the explained variance.

    Tokens of a compressed model are coloured by the last digit of their code. With --text, also plot the similarity of
    hidden states of different tokens and of the same token, layer by layer.

    Example: relexify geometry gpt2-swahili gpt2-swahili-small -o embeddings.svg --text held.txt
    """
    from relexify.pretrained.loading import load_model
    from relexify.reports import Principal, plot_embedding, plot_similarities, principal_components
    from relexify.storage.files import check_inputs, check_output

    names = _names(models)
    if text and output == layers:
        raise InputError(f"{output} cannot hold both plots: give --layers another name")
    plots = [output, layers] if text else [output]
    for plot in plots:
        check_inputs(plot, models, text)
        check_output(plot, overwrite=overwrite, file=True)
    panels: dict[str, tuple[Principal, Any]] = {}
    similarities: dict[str, LayerSimilarities] = {}
    for name, model in names.items():
        loaded = load_model(model)
        embedding = loaded.get_input_embeddings()
        digits = getattr(embedding, "codes", None)
        points = principal_components(embedding.weight.detach().float().cpu().numpy())
        panels[name] = (points, None if digits is None else digits[:, -1].cpu().numpy())
        if text:
            similarities[name] = _similarities(loaded, model, text)
    plot_embedding(panels, output, seed=seed)
    if text:
        plot_similarities(similarities, layers)
    _print(panels, similarities)
    results.print(f"Plotted in [bold]{escape(' and '.join(map(str, plots)))}[/]", soft_wrap=True)
    explained = {name: float(points.explained) for name, (points, _) in panels.items()}
    emit(plots=plots, explained_variance=explained, similarities=similarities)


def _names(models: list[str]) -> dict[str, str]:
    """Return a short name for each model, or the full one if two folders have the same name."""
    short = [Path(model).name or model for model in models]
    if len(set(models)) < len(models):
        raise InputError("a model is given twice: give each one once")
    return {name if short.count(name) == 1 else model: model for name, model in zip(short, models, strict=True)}


def _similarities(model: Any, name: str, text: str) -> LayerSimilarities:
    from relexify.pretrained.architecture import architecture_of, encoder_frame, usable_length
    from relexify.pretrained.loading import load_tokenizer
    from relexify.reports import layer_similarities
    from relexify.scoring import held_out_windows
    from relexify.text import Corpus

    kind = architecture_of(model)
    if kind == "encoder-decoder":
        raise InputError(f"{name} is an encoder-decoder: its layers do not form one sequence")
    tokenizer = load_tokenizer(name)
    before, after = encoder_frame(tokenizer) if kind == "encoder" else ([], [])
    length = min(512, usable_length(model) or 512) - len(before) - len(after)
    lines = Corpus.open(text).sample_bytes(16 * POSITIONS).split("\n")
    windows = held_out_windows(tokenizer, lines, "decoder", length=length).inputs  # a decoder's are not masked
    compared = windows[: max(1, POSITIONS // windows.shape[1])].tolist()
    return layer_similarities(model, compared, before=before, after=after)


def _print(panels: dict[str, Any], similarities: dict[str, LayerSimilarities]) -> None:
    shown = table(
        "Geometry", "model", "variance explained by 3 axes", "first layer", "last layer", "same token, last layer"
    )
    for name, (points, _) in panels.items():
        found = similarities.get(name)
        cosines = [found.inter[0], found.inter[-1], found.intra[-1]] if found else []
        cells = [f"{value:.3f}" for value in cosines] or ["–"] * 3
        shown.add_row(escape(name), f"{points.explained:.3f}", *cells)
    print_table(shown)
