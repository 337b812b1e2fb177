"""Plot models side by side: their embeddings, hidden states of a text, and neighbours of a word."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from relexify.grafting import load_own_tokenizer
from relexify.pretrained.loading import load_model
from relexify.pretrained.parameters.lexical import weight_rows
from relexify.pretrained.runtime.runnable import check_finite
from relexify.reports.geometry.inputs import neighbours_among_tokens, neighbours_in_file, states_of_text
from relexify.reports.geometry.measures import (
    HiddenStates,
    LayerSimilarities,
    Neighbourhood,
    Principal,
    layer_similarities,
    principal_components,
)
from relexify.reports.geometry.plots import plot_embedding, plot_neighbourhoods, plot_similarities, plot_states

__all__ = ["GeometryPlots", "GeometryResult", "plot_geometry"]


@dataclass(frozen=True)
class GeometryPlots:
    """The pictures to write, `.svg` or `.png`.

    Attributes:
        embeddings: The embeddings on their main axes.
        layers: Similarities of hidden states by layer, if there is a text.
        states: The hidden states themselves; None to leave them out.
        neighbours: The neighbours of a word, if there is one.
    """

    embeddings: Path
    layers: Path
    states: Path | None
    neighbours: Path


@dataclass(frozen=True)
class GeometryResult:
    """What the pictures show, in numbers.

    Attributes:
        explained_variance: The share of the variance on the first three axes, by model.
        similarities: Mean cosines of hidden states, by model; empty without a text.
    """

    explained_variance: Mapping[str, float]
    similarities: Mapping[str, LayerSimilarities]


def plot_geometry(
    models: Mapping[str, str],
    plots: GeometryPlots,
    *,
    text: str | None = None,
    word: str | None = None,
    vectors: Mapping[str, str] | None = None,
    seed: int = 0,
) -> GeometryResult:
    """Plot models side by side.

    Args:
        models: Folders or names, as for `load_model`, by the name to show.
        plots: Where to.
        text: Text whose hidden states are compared, as for `Corpus.open`.
        word: A word whose neighbours are shown.
        vectors: Files of word vectors to show its neighbours in too, by the name to show.
        seed: Random seed of the sample of points, if there are many.

    Raises:
        InputError: A model or file cannot be read, or lacks the word, or a model has NaN.
        MissingExtra: matplotlib is not installed.
    """
    panels: dict[str, tuple[Principal, np.ndarray | None]] = {}
    states: dict[str, tuple[HiddenStates, Mapping[int, str]]] = {}
    neighbours: dict[str, Neighbourhood] = {}
    for name, model in models.items():
        tokenizer, loaded = load_own_tokenizer(model), load_model(model)
        check_finite(loaded)
        embedding = loaded.get_input_embeddings()
        rows, codes = weight_rows(embedding), getattr(embedding, "codes", None)
        panels[name] = (principal_components(rows), None if codes is None else codes[:, -1].cpu().numpy())
        if text:
            states[name] = states_of_text(loaded, tokenizer, text, name=name)
        if word:
            neighbours[name] = neighbours_among_tokens(rows, tokenizer, word, name=name)
    if word:
        neighbours |= {name: neighbours_in_file(Path(file), word) for name, file in (vectors or {}).items()}
    similarities = {name: layer_similarities(found) for name, (found, _) in states.items()}
    plot_embedding(panels, plots.embeddings, seed=seed)
    if text:
        plot_similarities(similarities, plots.layers)
    if text and plots.states:
        plot_states(states, plots.states, seed=seed)
    if word:
        plot_neighbourhoods(neighbours, plots.neighbours)
    explained = {name: float(principal.explained) for name, (principal, _) in panels.items()}
    return GeometryResult(explained, similarities)
