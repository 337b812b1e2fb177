"""Plots of the geometry of embeddings: a scatter on three main axes, and cosines layer by layer."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from relexify.errors import InputError
from relexify.reports.geometry import LayerSimilarities, Principal
from relexify.reports.plots import COLOURS, FAINT, GREY, METADATA, own_style
from relexify.storage.files import write_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["plot_embedding", "plot_similarities"]

SHOWN = 4_000
"""Points of a scatter, so that a plot stays readable and its file small."""


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
    _check(panels, path)
    with own_style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(3.6 * len(panels), 3.6), layout="constrained")
        for index, (title, (principal, digits)) in enumerate(panels.items()):
            axis = figure.add_subplot(1, len(panels), index + 1, projection="3d")
            _scatter(axis, principal, digits, seed)
            axis.set_title(f"{title}\nr₃ = {principal.explained:.3f}", fontsize=9.5)
        return _written(figure, Path(path))


def plot_similarities(models: Mapping[str, LayerSimilarities], path: str | Path) -> Path:
    """Draw mean cosines of hidden states against layers, different tokens beside equal ones (Figure 3).

    Args:
        models: By name.
        path: The picture, `.svg` or `.png`.

    Raises:
        InputError: There is nothing to draw, or the name is not that of a picture.
        MissingExtra: matplotlib is not installed.
    """
    _check(models, path)
    with own_style():
        from matplotlib.figure import Figure
        from matplotlib.ticker import MaxNLocator

        figure = Figure(figsize=(7.6, 3.0), layout="constrained")
        left, right = figure.subplots(1, 2, sharey=True)
        for index, (name, found) in enumerate(models.items()):
            dress = {"color": COLOURS[index % len(COLOURS)], "linewidth": 1.6, "marker": "o", "markersize": 3}
            left.plot(range(len(found.inter)), found.inter, label=name, **dress)
            right.plot(range(len(found.intra)), found.intra, **dress)
        for axis, title in ((left, "different tokens (inter)"), (right, "the same token (intra)")):
            axis.set_title(title, loc="left", fontsize=10)
            axis.set_xlabel("layer")
            axis.xaxis.set_major_locator(MaxNLocator(integer=True))
            axis.grid(axis="y", color=FAINT, linewidth=0.6)
            axis.spines[["top", "right"]].set_visible(False)
        left.set_ylabel("mean cosine", color=GREY)
        figure.legend(loc="outside right center", frameon=False)
        return _written(figure, Path(path))


def _scatter(axis: Any, principal: Principal, digits: np.ndarray | None, seed: int) -> None:
    points = np.zeros((len(principal.points), 3))
    points[:, : principal.points.shape[1]] = principal.points[:, :3]
    chosen = np.random.default_rng(seed).permutation(len(points))[:SHOWN]
    colours = COLOURS[0] if digits is None else [COLOURS[digit % len(COLOURS)] for digit in digits[chosen]]
    first, second, third = points[chosen].T
    dress: dict[str, Any] = {"c": colours, "s": 2, "linewidths": 0, "alpha": 0.6, "rasterized": True}
    axis.scatter(first, second, third, **dress)
    axis.tick_params(labelsize=6, pad=0)


def _check(panels: Mapping[str, object], path: str | Path) -> None:
    if not panels:
        raise InputError(f"there is nothing to draw in {path}: give at least one model")
    if Path(path).suffix.lower() not in METADATA:
        raise InputError(f"{path} is not the name of a picture: it must end in {' or '.join(METADATA)}")


def _written(figure: Figure, path: Path) -> Path:
    buffer = io.BytesIO()
    kind = path.suffix.lower()
    figure.savefig(buffer, format=kind[1:], dpi=200, metadata=dict(METADATA[kind]))
    return write_file(path, buffer.getvalue())
