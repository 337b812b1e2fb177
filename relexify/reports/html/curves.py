"""Training curves in SVG: held-out bits per byte against steps, in the colours of the page."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape

from relexify.reports.html.elements import round_numbers

__all__ = ["draw_curves"]

_WIDTH, _HEIGHT = 760, 320
_RIGHT, _TOP, _BOTTOM = 14, 14, 58
_MARGIN, _DIGIT, _DIGITS = 20, 12, 4
"""Space to the left of the plot, and for each character of a number there; a phone shows them in a larger font. There
is space for four of them at least, so that the horizontal axes of two plots are aligned."""
_HALF_DIGIT = 9
"""Half of the width of a character on a phone."""
_FALL = 0.005
"""Share of its first value by which a curve must fall to count as falling."""
_MOST_POINTS = 60
"""Points of a line that are marked; more would hide it."""
COLOURS = 7
"""Colours of the style sheet (`--c0` …) that lines take in turn; when they are used again, lines are dashed."""


Points = Sequence[tuple[int, float]]
"""Steps and values of a curve."""


def draw_curves(curves: Mapping[str, Points], *, label: str = "bits per byte", unit: str = "step") -> str:
    """Return a plot with one line per curve, and a legend if there are several; the name of one is in its caption.

    Args:
        curves: The curves by name; values that are not finite are left out.
        label: The label of the vertical axis.
        unit: What the horizontal axis counts, in the singular.
    """
    finite = {name: [point for point in points if math.isfinite(point[1])] for name, points in curves.items()}
    drawn = {name: points for name, points in finite.items() if points}
    if not drawn:
        return ""
    low, high = _limits(list(drawn.values()))
    above = [name for name, points in drawn.items() if all(value > high for _, value in points)]
    drawn = {name: points for name, points in drawn.items() if name not in above}  # else a flat line at the edge
    last = max(point[0] for points in drawn.values() for point in points) or 1
    frame = _Frame(low, high, last)
    parts = list(_draw_axes(frame, unit))
    for index, (name, points) in enumerate(drawn.items()):
        parts += _draw_line(frame, index, name, points, unit)
    description = escape(f"{label} against {unit}s: {', '.join(drawn)}")
    plot = f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{description}">{"".join(parts)}</svg>'
    is_cut = any(value > high for points in drawn.values() for _, value in points)
    titled = label if len(drawn) > 1 else f"{next(iter(drawn))}, {label}"
    remarks = [titled, *(["larger values are at the upper edge"] if is_cut else [])]
    remarks += [f"{', '.join(above)} would be above the plot"] if above else []
    caption = f"<figcaption>{escape('; '.join(remarks))}</figcaption>"
    return f'<figure class="plot">{caption}{plot}{_draw_legend(list(drawn)) if len(drawn) > 1 else ""}</figure>'


@dataclass(frozen=True)
class _Frame:
    """The area of a plot.

    Attributes:
        low: The value at its lower edge.
        high: The value at its upper edge.
        last: The step at its right edge; the left one is step 0.
    """

    low: float
    high: float
    last: int

    @property
    def values(self) -> dict[str, float]:
        """The numbers on the vertical axis, as they are written."""
        ticks, decimals = round_numbers(self.low, self.high)
        return {f"{tick:.{decimals}f}": tick for tick in ticks}

    @property
    def steps(self) -> dict[str, float]:
        """The numbers on the horizontal axis, as they are written."""
        return {f"{tick:,.0f}": tick for tick in round_numbers(0, self.last, smallest=1)[0]}

    @cached_property
    def left(self) -> int:
        """Space to its left."""
        return _MARGIN + _DIGIT * max(_DIGITS, *map(len, self.values))

    @cached_property
    def right(self) -> int:
        """Space to its right: the last number is centred below the end of the axis."""
        return max(_RIGHT, _HALF_DIGIT * len(max(self.steps, key=len)))

    def at(self, step: float, value: float) -> tuple[float, float]:
        """Return the position of a point, at the upper edge if its value is above it."""
        share = (min(value, self.high) - self.low) / (self.high - self.low)
        return (
            self.left + (_WIDTH - self.left - self.right) * step / self.last,
            _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * share,
        )


def _draw_axes(frame: _Frame, unit: str) -> Iterator[str]:
    """Yield a line and a number for each value on the vertical axis, and the numbers of the horizontal one."""
    left, right = frame.left, frame.right
    for number, tick in frame.values.items():
        _, y = frame.at(0, tick)
        yield f'<path class="rule" d="M{left} {y:.1f}H{_WIDTH - right}"/>'
        yield f'<text class="y" x="{left - 8}" y="{y:.1f}">{number}</text>'
    for number, tick in frame.steps.items():
        x, _ = frame.at(tick, frame.low)
        yield f'<text class="x" x="{x:.1f}" y="{_HEIGHT - _BOTTOM + 22}">{number}</text>'
    yield f'<text class="x" x="{(left + _WIDTH) / 2}" y="{_HEIGHT - 6}">{escape(unit)}s</text>'


def _draw_line(frame: _Frame, index: int, name: str, points: Points, unit: str) -> Iterator[str]:
    """Yield the line of a curve, and its points if they are not too close."""
    positions = [frame.at(step, value) for step, value in points]
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y in positions)
    colour, kind = f"var(--c{index % COLOURS})", "line again" if index >= COLOURS else "line"
    yield f'<path class="{kind}" style="stroke:{colour}" d="M{path}"><title>{escape(name)}</title></path>'
    if len(points) > _MOST_POINTS:
        return
    for (step, value), (x, y) in zip(points, positions, strict=True):
        about = escape(f"{name}: {value:.4f} at {unit} {step:,}")
        yield f'<circle style="fill:{colour}" cx="{x:.1f}" cy="{y:.1f}" r="3"><title>{about}</title></circle>'


def _draw_legend(names: Sequence[str]) -> str:
    entries = "".join(
        f'<span><i class="{"again" if index >= COLOURS else "once"}" style="color:var(--c{index % COLOURS})"></i>'
        f"{escape(name)}</span>"
        for index, name in enumerate(names)
    )
    return f'<div class="legend">{entries}</div>'


def _limits(curves: Sequence[Points]) -> tuple[float, float]:
    """Return the range of values; starts and diverged curves far above the others are cut off: they would flatten them.

    Of a curve that falls, the last three quarters are always in the range, so that it is not a flat line at the edge.
    """
    low = min(value for points in curves for _, value in points)
    # A start says little about the height of a curve, unless there is little else: alone, with few points, it is shown.
    few = 8 if len(curves) == 1 else 3
    peaks = sorted(max(value for _, value in points[1 if len(points) > few else 0 :]) for points in curves)
    most = low + 4 * (peaks[(len(peaks) - 1) // 2] - low)
    if most == low:
        most = peaks[-1]
    falling = [points for points in curves if points[-1][1] < (1 - _FALL) * points[0][1]]
    for points in falling:
        end = points[-1][0]
        peak = max(value for step, value in points if len(points) <= 3 or step >= end / 4)
        most = max(most, low + 1.5 * (peak - low))
    high = max(value for points in curves for _, value in points if value <= most)
    margin = 0.06 * (high - low) or 0.05 * abs(high) or 1.0
    return low - margin, high + margin
