"""Two directed alignments into one."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from relexify.errors import InputError
from relexify.parallel.links import Links
from relexify.progress import Progress, silent

__all__ = ["Symmetrisation", "symmetrise"]

Symmetrisation = Literal["grow-diag-final-and", "intersection", "union", "forward"]

Point = tuple[int, int]
_AROUND = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


def symmetrise(forward: Links, reverse: Links, how: Symmetrisation, *, progress: Progress = silent) -> Links:
    """Combine two directions (Och and Ney, 2003; Koehn et al., 2005).

    Args:
        forward: Every target unit has at most one source unit.
        reverse: Every source unit has at most one target unit.
        how: `"intersection"` keeps what both have, `"union"` what either has, `"forward"` the first as it is.
            `"grow-diag-final-and"` starts from the intersection, adds links of the union that touch one already there
            (also across a corner) and bring in a unit that has none, then links of either direction between two units
            that both have none.
        progress: Told about lines.

    Raises:
        InputError: There is no such way.
    """
    if how not in get_args(Symmetrisation):
        raise InputError(f"there is no symmetrisation {how!r}: choose one of {', '.join(get_args(Symmetrisation))}")
    if how == "forward":
        return Links.of_points(forward.points())
    both = np.concatenate([forward.points(), reverse.points()])
    united, counts = np.unique(both, axis=0, return_counts=True)
    if how == "union":
        return Links.of_points(united)
    common = united[counts == 2]
    return Links.of_points(common if how == "intersection" else _grown(forward, reverse, united, common, progress))


def _grown(forward: Links, reverse: Links, united: np.ndarray, common: np.ndarray, progress: Progress) -> np.ndarray:
    """Grow-diag-final-and, line by line; where both directions agree there is nothing to grow."""
    lines = np.unique(united[:, 0])
    ours, theirs = forward.points(), reverse.points()
    tables = [_by_line(points, lines) for points in (common, united, ours, theirs)]
    grown: list[tuple[int, int, int]] = []
    with progress("symmetrising", len(lines)) as advance:
        for place, line in enumerate(lines):
            agreed, either, first, second = (_points(points, ends, place) for points, ends in tables)
            found = agreed if len(agreed) == len(either) else _grow(agreed, set(either), first, second)
            grown.extend((int(line), source, target) for source, target in found)
            if place % 1000 == 999:
                advance(1000)
    return np.array(grown, dtype=np.int32).reshape(-1, 3)


def _grow(agreed: list[Point], either: set[Point], forward: list[Point], reverse: list[Point]) -> list[Point]:
    """One pair of sentences; links in order, new ones at the end."""
    kept = list(agreed)
    sources, targets = {source for source, _ in kept}, {target for _, target in kept}
    waiting = either - set(kept)

    def keep(point: Point) -> None:
        kept.append(point)
        waiting.discard(point)
        sources.add(point[0])
        targets.add(point[1])

    for source, target in kept:  # the list grows while it is walked
        for down, right in _AROUND:
            point = (source + down, target + right)
            if point in waiting and (point[0] not in sources or point[1] not in targets):
                keep(point)
    for point in (*forward, *reverse):
        if point in waiting and point[0] not in sources and point[1] not in targets:
            keep(point)
    return kept


def _by_line(points: np.ndarray, lines: np.ndarray) -> tuple[list[list[int]], np.ndarray]:
    """Links in order, and where those of each line begin, [lines + 1]."""
    order = np.lexsort((points[:, 2], points[:, 1], points[:, 0]))
    ordered = points[order]
    starts = np.append(np.searchsorted(ordered[:, 0], lines), len(ordered))
    return ordered[:, 1:].tolist(), starts


def _points(points: list[list[int]], starts: np.ndarray, place: int) -> list[Point]:
    return [(source, target) for source, target in points[starts[place] : starts[place + 1]]]
