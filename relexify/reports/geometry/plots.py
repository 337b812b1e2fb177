"""Plots of the geometry of embeddings and hidden states: scatters on main axes, cosines, neighbours of a word."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from relexify.errors import InputError
from relexify.reports.geometry.measures import (
    HiddenStates,
    LayerSimilarities,
    Neighbourhood,
    Principal,
    principal_components,
)
from relexify.reports.plots import COLOURS, FAINT, GREY, saved_figure

__all__ = ["plot_embedding", "plot_neighbourhoods", "plot_similarities", "plot_states"]

SHOWN = 4_000
"""Points of a scatter, so that a plot stays readable and its file small."""
LAYERS_A_ROW = 5


def plot_embedding(
    panels: Mapping[str, tuple[Principal, np.ndarray | None]], path: str | Path, *, seed: int = 0
) -> Path:
    """Scatter embeddings on their first three axes, with the share of the variance that these explain (Figure 2).

    Args:
        panels: By title: the points of an embedding, and a digit of each token to colour it by, or None.
        path: The picture, `.svg` or `.png`.
        seed: Random seed of the sample of points, if there are many.

    Raises:
        InputError: There is nothing to draw, or the name is not that of a picture.
        MissingExtra: matplotlib is not installed.
    """
    _check_models(panels, path)
    with saved_figure(path, 3.6 * len(panels), 3.6) as figure:
        for index, (title, (principal, digits)) in enumerate(panels.items()):
            axis = figure.add_subplot(1, len(panels), index + 1, projection="3d")
            numbers = np.zeros(len(principal.points), np.int64) if digits is None else digits
            _scatter(axis, principal, [COLOURS[number % len(COLOURS)] for number in numbers], seed)
            axis.set_title(f"{title}\nr₃ = {principal.explained:.3f}", fontsize=9.5)
    return Path(path)


def plot_similarities(models: Mapping[str, LayerSimilarities], path: str | Path) -> Path:
    """Draw mean cosines of hidden states against layers, different tokens beside equal ones (Figure 3).

    Args:
        models: By name.
        path: The picture, `.svg` or `.png`.

    Raises:
        InputError: There is nothing to draw, or the name is not that of a picture.
        MissingExtra: matplotlib is not installed.
    """
    _check_models(models, path)
    with saved_figure(path, 7.6, 3.0) as figure:
        from matplotlib.ticker import MaxNLocator

        left, right = figure.subplots(1, 2, sharey=True)
        for index, (name, found) in enumerate(models.items()):
            style = {"color": COLOURS[index % len(COLOURS)], "linewidth": 1.6, "marker": "o", "markersize": 3}
            left.plot(range(len(found.inter)), found.inter, label=name, **style)
            right.plot(range(len(found.intra)), found.intra, **style)
        for axis, title in ((left, "different tokens (inter)"), (right, "the same token (intra)")):
            axis.set_title(title, loc="left", fontsize=10)
            axis.set_xlabel("layer")
            axis.xaxis.set_major_locator(MaxNLocator(integer=True))
            axis.grid(axis="y", color=FAINT, linewidth=0.6)
            axis.spines[["top", "right"]].set_visible(False)
        left.set_ylabel("mean cosine", color=GREY)
        figure.legend(loc="outside right center", frameon=False)
    return Path(path)


def plot_states(
    models: Mapping[str, tuple[HiddenStates, Mapping[int, str]]], path: str | Path, *, seed: int = 0
) -> Path:
    """Scatter the hidden states of a text on their three main axes, one panel for each layer (Figures 4 to 10).

    Args:
        models: By name: the states, and the names of the tokens that are coloured; all others are grey.
        path: The picture, `.svg` or `.png`.
        seed: Random seed of the sample of points, if there are many.

    Raises:
        InputError: There is nothing to draw, or the name is not that of a picture.
        MissingExtra: matplotlib is not installed.
    """
    _check_models(models, path)
    heights = [-(-len(states.layers) // LAYERS_A_ROW) for states, _ in models.values()]
    width = max(min(len(states.layers), LAYERS_A_ROW) for states, _ in models.values())
    with saved_figure(path, 2.0 * width, 2.2 * sum(heights)) as figure:
        from matplotlib.lines import Line2D

        parts = figure.subfigures(len(models), 1, squeeze=False, height_ratios=heights)[:, 0]
        for part, (name, (states, tokens)) in zip(parts, models.items(), strict=True):
            part.suptitle(name, fontsize=9.5)
            colour_of = {token: COLOURS[index % len(COLOURS)] for index, token in enumerate(tokens)}
            colours = [colour_of.get(int(token), FAINT) for token in states.ids]
            for index, layer in enumerate(states.layers):
                axis = part.add_subplot(-(-len(states.layers) // LAYERS_A_ROW), width, index + 1, projection="3d")
                _scatter(axis, principal_components(layer), colours, seed)
                axis.set_title(f"layer {index}", fontsize=8)
            marks = [Line2D([], [], marker="o", linestyle="", markersize=3, color=each) for each in colour_of.values()]
            if marks:
                part.legend(marks, list(tokens.values()), loc="outside right center", frameon=False, fontsize=8)
    return Path(path)


def plot_neighbourhoods(spaces: Mapping[str, Neighbourhood], path: str | Path) -> Path:
    """Draw the cosines of a word with all others, and its nearest words on two main axes (Figures 4 and 5 of TreLM).

    Args:
        spaces: By title.
        path: The picture, `.svg` or `.png`.

    Raises:
        InputError: There is nothing to draw, or the name is not that of a picture.
        MissingExtra: matplotlib is not installed.
    """
    _check_models(spaces, path)
    with saved_figure(path, 4.2 * len(spaces), 6.4) as figure:
        axes = figure.subplots(2, len(spaces), squeeze=False, height_ratios=(1, 2))
        for (histogram, scatter), (title, found) in zip(axes.T, spaces.items(), strict=True):
            histogram.hist(found.cosines, bins=60, density=True, color=COLOURS[0])
            histogram.set_title(title, fontsize=9.5)
            histogram.set_xlabel(f"cosine with {found.words[0]!r}")
            histogram.spines[["top", "right"]].set_visible(False)
            first, second = found.points.T
            scatter.scatter(first, second, s=4, color=[COLOURS[1]] + [COLOURS[0]] * (len(first) - 1))
            for word, point in zip(found.words, found.points, strict=True):
                scatter.annotate(word, point, fontsize=6, color=GREY)
            scatter.spines[["top", "right"]].set_visible(False)
        axes[0, 0].set_ylabel("density", color=GREY)
    return Path(path)


def _scatter(axis: Any, principal: Principal, colours: Sequence[str], seed: int) -> None:
    """Scatter points, or a sample of them, in their colours [n]."""
    points = np.zeros((len(principal.points), 3))
    points[:, : principal.points.shape[1]] = principal.points[:, :3]
    chosen = np.random.default_rng(seed).permutation(len(points))[:SHOWN]
    first, second, third = points[chosen].T
    style: dict[str, Any] = {"s": 2, "linewidths": 0, "alpha": 0.6, "rasterized": True}
    axis.scatter(first, second, third, c=[colours[each] for each in chosen], **style)
    axis.tick_params(labelsize=6, pad=0)


def _check_models(models: Mapping[str, object], path: str | Path) -> None:
    if not models:
        raise InputError(f"there is nothing to draw in {path}: give at least one model")
