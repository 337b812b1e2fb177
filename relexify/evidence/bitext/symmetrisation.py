"""Combine the two directions of a word alignment."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, get_args

import numpy as np

from relexify.errors import check_choice
from relexify.evidence.bitext.links import Links, sorted_distinct
from relexify.progress import track

__all__ = ["Symmetrisation", "symmetrise"]

Symmetrisation = Literal["grow-diag-final-and", "intersection", "union", "forward"]

Point = tuple[int, int]
_AROUND = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


def symmetrise(forward: Links, reverse: Links, how: Symmetrisation) -> Links:
    """Combine two directions (Och and Ney, 2003; Koehn et al., 2005).

    Args:
        forward: Every target unit has at most one source unit.
        reverse: Every source unit has at most one target unit.
        how: `"intersection"` keeps links in both, `"union"` links in either, `"forward"` only the first direction.
            `"grow-diag-final-and"` starts from the intersection. It adds links of the union that are adjacent to an
            existing link (also diagonally) and cover an uncovered unit, then links of either direction between two
            uncovered units. Neighbours are visited in another order than in Moses, so a few links differ in noisy text.

    Raises:
        InputError: `how` is none of these.
    """
    check_choice("symmetrisation", how, get_args(Symmetrisation))
    ours, theirs = forward.keys(), reverse.keys()
    if how == "forward":
        return Links.from_keys(ours)
    both = np.sort(np.concatenate([ours, theirs]))
    united = sorted_distinct(both)
    if how == "union":
        return Links.from_keys(united)
    common = both[1:][np.diff(both) == 0]
    if how == "intersection":
        return Links.from_keys(common)
    return _grow_diag_final_and(
        Links.from_keys(common), Links.from_keys(united), Links.from_keys(ours), Links.from_keys(theirs)
    )


def _grow_diag_final_and(common: Links, united: Links, forward: Links, reverse: Links) -> Links:
    """Grow line by line; lines on which both directions agree need no growing."""
    lines, sizes = np.unique(united.line, return_counts=True)
    differ = sizes != np.bincount(common.line, minlength=int(lines.max(initial=-1)) + 1)[lines]
    tables = [_by_line(links, lines[differ]) for links in (common, united, forward, reverse)]
    grown: list[tuple[int, int, int]] = []
    with track("symmetrising", int(differ.sum())) as advance:
        for line, agreed, either, first, second in zip(lines[differ].tolist(), *tables, strict=True):
            grown.extend((line, *point) for point in _grow(agreed, set(either), first, second))
            advance(1)
    complete = np.isin(common.line, lines[differ], invert=True)
    return Links.from_points(np.concatenate([common.points()[complete], np.array(grown, np.int32).reshape(-1, 3)]))


def _grow(agreed: list[Point], either: set[Point], forward: list[Point], reverse: list[Point]) -> list[Point]:
    """Grow the links of one pair of sentences; added links are at the end."""
    kept = list(agreed)
    sources, targets = {source for source, _ in kept}, {target for _, target in kept}
    waiting = either - set(kept)

    def keep(point: Point) -> None:
        kept.append(point)
        waiting.discard(point)
        sources.add(point[0])
        targets.add(point[1])

    for source, target in kept:  # the list grows during the iteration, so added links are visited too
        for down, right in _AROUND:
            point = (source + down, target + right)
            if point in waiting and (point[0] not in sources or point[1] not in targets):
                keep(point)
    for point in (*forward, *reverse):
        if point in waiting and point[0] not in sources and point[1] not in targets:
            keep(point)
    return kept


def _by_line(links: Links, lines: np.ndarray) -> Iterator[list[Point]]:
    """Yield the links of each line, in order."""
    starts, ends = (np.searchsorted(links.line, lines, side) for side in ("left", "right"))
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        yield list(zip(links.source[start:end].tolist(), links.target[start:end].tolist(), strict=True))
