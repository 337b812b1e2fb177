"""Plots of held-out scores and of scores on tasks during training: one colour per run."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relexify.errors import InputError, importing
from relexify.reports.comparison import Comparison
from relexify.reports.statistics import Statistic
from relexify.reports.task_scores import mean_scores
from relexify.storage.files import write_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["plot_curves", "plot_tasks", "saved_figure"]

# Okabe and Ito's colours, which colour-blind people can distinguish, without yellow (hardly visible on white); then
# further ones, for comparisons of many runs.
COLOURS = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#333333",
    "#882255", "#999933", "#332288", "#AAAAAA", "#8C564B",
)  # fmt: skip
_DASHES = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)))
_INK, GREY, FAINT = "#222222", "#666666", "#E4E4E4"
_PANELS_A_ROW = 3
_PANEL_SIZE, _LEGEND_WIDTH = (3.9, 3.0), 1.4  # inches
_METADATA: Mapping[str, Mapping[str, Any]] = {".svg": {"Date": None}, ".png": {"Software": None}}
_STYLE: dict[Any, Any] = {
    "svg.hashsalt": "relexify",
    "svg.fonttype": "none",
    "font.family": ["sans-serif"],
    "font.sans-serif": ["DejaVu Sans", "Helvetica", "Arial"],
    "font.size": 9,
    "text.color": _INK,
    "axes.labelcolor": GREY,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "text.parse_math": False,
    "figure.constrained_layout.w_pad": 0.1,
    "figure.constrained_layout.h_pad": 0.08,
}


def plot_curves(comparisons: Sequence[Comparison], path: str | Path) -> Path:
    """Draw held-out bits per byte against steps, one panel per comparison.

    A line is the mean over seeds, with a band of one standard deviation to both sides where there are several. A
    circle marks the best measurement of a run that became worse after it. Lines start at step 0; what lies above the
    scores after a tenth of the steps is cut off, since it would flatten all the rest. If there are several training
    plans, each has its own dashes, and an initialisation has one colour with all of them. The same input gives the same
    bytes.

    Args:
        comparisons: The panels, in order; a run of the same name has the same colour in all of them.
        path: The picture, `.svg` or `.png`.

    Raises:
        InputError: There is nothing to draw, or the name of the file is not one of those.
        MissingExtra: matplotlib is not installed.
        OutputError: The picture cannot be written.
    """
    if not comparisons:
        raise InputError(f"there is nothing to draw in {path}: give at least one comparison")
    styles, legend = _line_styles(comparisons)
    with _saved_panels(len(comparisons), Path(path)) as (figure, panels):
        marked = [_draw_panel(axis, each, styles) for axis, each in zip(panels, comparisons, strict=True)]
        _draw_legend(figure, legend, best=any(marked))
    return Path(path)


def plot_tasks(comparison: Comparison, path: str | Path) -> Path:
    """Draw scores on tasks against steps of all trainings, one panel per task.

    A point is the mean over all seeds of training and of fine-tuning, with a band of one standard deviation to both
    sides where there are several. The same input gives the same bytes.

    Args:
        comparison: With scores on tasks.
        path: The picture, `.svg` or `.png`.

    Raises:
        InputError: There is nothing to draw, or the name of the file is not one of those.
        MissingExtra: matplotlib is not installed.
        OutputError: The picture cannot be written.
    """
    means = {run: mean_scores(found) for run, found in comparison.tasks.items()}
    metrics = {task: mean.score.metric for found in means.values() for (task, _), mean in found.items()}
    if not metrics:
        raise InputError(f"there is nothing to draw in {path}: give a comparison with tasks")
    styles, legend = _line_styles([comparison])
    with _saved_panels(len(metrics), Path(path)) as (figure, panels):
        for axis, (task, metric) in zip(panels, metrics.items(), strict=True):
            for run, found in means.items():
                earlier = sum(curve.last.step for curve in comparison.earlier.get(run, ())[:1])
                end = earlier + comparison.mean_curve(run).last.step
                scores = [
                    replace(mean.statistic, step=end if step is None else step)
                    for (name, step), mean in found.items()
                    if name == task
                ]
                _draw_means(axis, sorted(scores, key=lambda score: score.step), {**styles[run], "marker": "o"})
            _style_panel(axis, task, metric, comparison.step_size)
        _draw_legend(figure, legend, best=False)
    return Path(path)


@contextmanager
def saved_figure(path: str | Path, width: float, height: float) -> Iterator[Figure]:
    """Yield a figure of a size in inches to draw in, and save it afterwards.

    It has the same settings on every machine; the user's matplotlib settings are restored.

    Raises:
        InputError: It is not the name of a picture.
        MissingExtra: matplotlib is not installed.
    """
    kind = Path(path).suffix.lower()
    if kind not in _METADATA:
        raise InputError(f"{path} is not the name of a picture: it must end in {' or '.join(_METADATA)}")
    with importing("matplotlib", "drawing plots", "plots"):
        import matplotlib
        from matplotlib.figure import Figure
    buffer = io.BytesIO()
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_STYLE)
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure
        figure.savefig(buffer, format=kind[1:], dpi=200, metadata=dict(_METADATA[kind]))
    write_file(path, buffer.getvalue())


@contextmanager
def _saved_panels(panels: int, path: Path) -> Iterator[tuple[Figure, Sequence[Axes]]]:
    """Yield a figure with this number of panels to draw in, and save it afterwards."""
    rows = math.ceil(panels / _PANELS_A_ROW)
    columns = math.ceil(panels / rows)
    with saved_figure(path, columns * _PANEL_SIZE[0] + _LEGEND_WIDTH, rows * _PANEL_SIZE[1]) as figure:
        axes = list(figure.subplots(rows, columns, squeeze=False).flatten())
        for axis in axes[panels:]:
            axis.set_axis_off()
        yield figure, axes[:panels]


_LineStyles = dict[str, dict[str, Any]]
"""Colour, dashes and width of lines, by name."""


def _line_styles(comparisons: Sequence[Comparison]) -> tuple[_LineStyles, _LineStyles]:
    """Return how every run is drawn, and the entries of the legend.

    With several plans, the colour is that of the initialisation, the dashes are those of the plan, and the legend has
    an entry for each of both.
    """
    plans = {run: comparison.plans.get(run, "") for comparison in comparisons for run in comparison.curves}
    dashes = {plan: _DASHES[index % len(_DASHES)] for index, plan in enumerate(dict.fromkeys(plans.values()))}
    names = {run: run.removesuffix(f"-{plan}") if len(dashes) > 1 else run for run, plan in plans.items()}
    legend: _LineStyles = {}
    for index, name in enumerate(dict.fromkeys(names.values())):
        again = index // len(COLOURS) if len(dashes) == 1 else 0
        dash = _DASHES[again % len(_DASHES)]
        legend[name] = {"color": COLOURS[index % len(COLOURS)], "linestyle": dash, "linewidth": 1.6}
    if len(dashes) == 1:
        return legend, legend
    runs = {run: {**legend[name], "linestyle": dashes[plans[run]]} for run, name in names.items()}
    of_plans = {f"plan {plan}": {"color": GREY, "linestyle": dash, "linewidth": 1.6} for plan, dash in dashes.items()}
    return runs, {**legend, **of_plans}


def _draw_panel(axis: Axes, comparison: Comparison, styles: Mapping[str, Mapping[str, Any]]) -> bool:
    """Draw one comparison; True if a best measurement before the end was marked."""
    drawn: list[list[Statistic]] = []
    is_marked = False
    for run in comparison.curves:
        points = comparison.mean_curve(run).points
        scores = [comparison.at_step(run, point.step) for point in points]
        if scores := [score for score in scores if math.isfinite(score.mean)]:
            drawn.append(scores)
            style = styles[run]
            _draw_means(axis, scores, {**style, "marker": "o"} if len(scores) == 1 else style)
            best = min(scores, key=lambda score: score.mean)
            if best.mean < scores[-1].mean:
                axis.plot(best.step, best.mean, **_ring(style["color"]), clip_on=False)
                is_marked = True
    if drawn:
        # From the best score of all to the worst of those after a tenth of the steps, and of those at the end.
        after_a_tenth = [min(scores, key=lambda score: abs(score.step - 0.1 * scores[-1].step)) for scores in drawn]
        shown = [*after_a_tenth, *(scores[-1] for scores in drawn)]
        low = min(score.mean - (score.deviation or 0.0) for scores in drawn for score in scores)
        high = max(score.mean + (score.deviation or 0.0) for score in shown)
        margin = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
        axis.set_ylim(low - margin, high + margin)
        axis.set_xlim(0, max(scores[-1].step for scores in drawn) * 1.02 or 1)
    _style_panel(axis, comparison.title, "bits per byte", comparison.step_size)
    return is_marked


def _draw_means(axis: Axes, scores: Sequence[Statistic], style: Mapping[str, Any]) -> None:
    """Draw a line through means, with a band of the deviations."""
    steps, means = [score.step for score in scores], [score.mean for score in scores]
    if any(deviations := [score.deviation or 0.0 for score in scores]):
        low = [mean - deviation for mean, deviation in zip(means, deviations, strict=True)]
        high = [mean + deviation for mean, deviation in zip(means, deviations, strict=True)]
        axis.fill_between(steps, low, high, color=style["color"], alpha=0.22, linewidth=0)
    axis.plot(steps, means, solid_capstyle="round", markersize=4, **style)


def _ring(colour: str) -> dict[str, Any]:
    return {
        "marker": "o", "markersize": 5.5, "markerfacecolor": "white", "markeredgecolor": colour,
        "markeredgewidth": 1.4, "linestyle": "none", "zorder": 5,
    }  # fmt: skip


def _style_panel(axis: Axes, title: str, metric: str, step_size: str) -> None:
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    axis.set_title(title, loc="left", fontsize=10.5, fontweight="bold", pad=20)
    axis.annotate(metric, (0, 1), (0, 7), xycoords="axes fraction", textcoords="offset points", color=GREY)
    axis.set_xlabel(f"steps of {step_size} tokens")
    axis.xaxis.set_major_locator(MaxNLocator(6, integer=True, steps=[1, 2, 2.5, 5, 10]))
    axis.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axis.yaxis.set_major_locator(MaxNLocator(7, steps=[1, 2, 2.5, 5, 10]))
    axis.grid(axis="y", color=FAINT, linewidth=0.6)
    axis.set_axisbelow(True)
    axis.tick_params(length=0, labelsize=8.5)
    for side in ("left", "top", "right"):
        axis.spines[side].set_visible(False)
    axis.spines["bottom"].set(color=GREY, linewidth=0.6)


def _draw_legend(figure: Figure, legend: _LineStyles, *, best: bool) -> None:
    from matplotlib.lines import Line2D

    names, lines = list(legend), [Line2D([], [], **style) for style in legend.values()]
    if best:
        names, lines = [*names, "best, if not last"], [*lines, Line2D([], [], **_ring(GREY))]
    # Many entries are closer together, so that they are not higher than a panel.
    spacing = 0.7 if len(names) <= 12 else 0.3
    blank = [" "] * len(names)
    shown = figure.legend(
        lines, blank, loc="outside right center", frameon=False, handlelength=1.9, labelspacing=spacing
    )
    for text, name in zip(shown.get_texts(), names, strict=True):
        text.set_text(name)  # as a label, a name with an underscore before it is left out by matplotlib 3.9
