"""Comparisons as rows of text, for the terminal and for Markdown.

Every function here gives a list of rows, the header first:

    header, *rows = score_rows(comparison)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from relexify.errors import InputError
from relexify.reports.comparison import Comparison, Reach, Statistic, step_reaching, steps_to_reach

__all__ = ["effort_rows", "markdown", "reach_rows", "score_rows", "tokens_text"]

_SHARES = ((0.0, "start"), (0.1, "10 %"), (1.0, "end"))
_NOTHING = "–"


def score_rows(comparison: Comparison) -> list[list[str]]:
    """Bits per byte of every run at the start, after a tenth, at the end and at best; the header comes first.

    Where the runs ended at different steps, each cell tells its own step. Where runs hand their best model on, that
    one stands in place of the best measurement, and the perplexity is its own.
    """
    runs = list(comparison.curves)
    together = len({comparison.at(run, 1).step for run in runs}) == 1
    moments = [([comparison.at(run, share) for run in runs], label) for share, label in _SHARES]
    steps = [[score.step for score in found] for found, _ in moments]
    if steps[1] in (steps[0], steps[2]):  # of a short run, a tenth is its start
        del moments[1]
    scores = [_score_column(label, found, together) for found, label in moments]
    best = comparison.kept if comparison.keeps_best else comparison.best
    which = "kept" if comparison.keeps_best else "end"
    columns = [
        ["initialisation", *runs],
        *scores,
        ["best, kept" if comparison.keeps_best else "best", *(_with_step(best(run)) for run in runs)],
        [f"perplexity ({which})", *(_perplexity(comparison.kept(run, metric="perplexity")) for run in runs)],
        ["tokens", *(tokens_text(comparison.mean_curve(run).last.tokens) for run in runs)],
    ]
    if len({len(seeds) for seeds in comparison.curves.values()}) > 1:
        columns.append(["seeds", *(str(len(comparison.curves[run])) for run in runs)])
    return [list(row) for row in zip(*columns, strict=True)]


def reach_rows(comparison: Comparison) -> list[list[str]]:
    """Where each run (row) is as good as what each other run (column) hands on; the header comes first.

    The factor tells how many steps the other run took to get there for each of these.
    """
    runs = list(comparison.curves)
    reaches = {(reach.run, reach.target): _reach_text(reach) for reach in steps_to_reach(comparison)}
    header = ["initialisation", *(f"{run} ({comparison.kept(run).mean:.3f})" for run in runs)]
    return [header, *([run, *(reaches.get((run, target), _NOTHING) for target in runs)] for run in runs)]


def effort_rows(comparison: Comparison, *, reference: str | None = None) -> list[list[str]]:
    """How much training every run needs to become as good as what one of them hands on; the header comes first.

    The effort is relative to the run that needs the least training, as in Table 1 of the WECHSEL paper.

    Args:
        comparison: The runs.
        reference: The run whose score is to be reached; by default the one that hands on the worst.

    Raises:
        InputError: There is no such run.
    """
    reference = _worst(comparison) if reference is None else reference
    kept = comparison.kept(reference)
    steps = {run: step_reaching(comparison.mean_curve(run), kept.mean) for run in comparison.curves}
    if steps[reference] is None and math.isfinite(kept.mean):  # its seeds are at their best at different steps
        steps[reference] = float(kept.step)
    least = min((step for step in steps.values() if step), default=None)
    which = "best" if comparison.keeps_best else "end"
    header = ["initialisation", f"steps to reach {kept.mean:.3f}, the {which} of {reference}", "tokens", "effort"]
    return [header, *([run, *_effort(step, least, comparison.tokens_a_step)] for run, step in steps.items())]


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table as GitHub reads it, aligned; columns after the first are numbers.

    Raises:
        InputError: A row is longer or shorter than the header.
    """
    cells = [[_escape(cell) for cell in row] for row in (header, *rows)]
    wrong = next((row for row in cells if len(row) != len(header)), None)
    if wrong is not None:
        raise InputError(f"the row {wrong} does not fit the {len(header)} columns of its table: give one cell each")
    widths = [max(3, *map(len, column)) for column in zip(*cells, strict=True)]
    rule = [("-" * width if place == 0 else "-" * (width - 1) + ":") for place, width in enumerate(widths)]
    lines = [[_pad(cell, widths[place], place) for place, cell in enumerate(row)] for row in cells]
    return "".join(f"| {' | '.join(line)} |\n" for line in (lines[0], rule, *lines[1:]))


def tokens_text(tokens: float) -> str:
    """A number of tokens in three digits: `"16.4M"`."""
    for size, letter in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if tokens >= size * 0.9995:
            value = tokens / size
            return f"{value:.{max(0, 2 - int(math.log10(max(1.0, value) * 1.0005)))}f}{letter}"
    return f"{tokens:.0f}"


def _score_column(label: str, scores: Sequence[Statistic], together: bool) -> list[str]:
    """One share of the steps; the header names the step where it is the same for all, else every cell does."""
    steps = {score.step for score in scores}
    if len(steps) > 1:
        return [label, *map(_with_step, scores)]
    (step,) = steps
    # A step shared by runs of different lengths is not the same share of each.
    header = f"step {step:,} ({label})" if together and step > 0 else f"step {step:,}"
    return [header, *map(_bits, scores)]


def _bits(score: Statistic) -> str:
    return f"{score.mean:.3f}" if score.deviation is None else f"{score.mean:.3f} ± {score.deviation:.3f}"


def _with_step(score: Statistic) -> str:
    return f"{_bits(score)} (step {score.step:,})"


def _perplexity(score: Statistic) -> str:
    texts = [_significant(value) for value in (score.mean, score.deviation) if value is not None]
    return " ± ".join(texts)


def _significant(value: float) -> str:
    """As many digits as a perplexity deserves."""
    if not math.isfinite(value) or value >= 1e6:
        return f"{value:.1e}"
    return f"{value:.1f}" if value < 1000 else f"{value:,.0f}"


def _reach_text(reach: Reach) -> str:
    if reach.step is None:
        return "never"
    step = f"step {_whole(reach.step):,}"
    return step if reach.factor is None else f"{step} ({_factor(reach.factor)})"


def _effort(step: float | None, least: float | None, tokens_a_step: int) -> list[str]:
    if step is None:
        return ["never", _NOTHING, _NOTHING]
    effort = _factor(step / least) if step and least else "none"
    return [f"{_whole(step):,}", tokens_text(step * tokens_a_step), effort]


def _factor(factor: float) -> str:
    return f"{factor:.1f}×" if factor < 100 else f"{factor:,.0f}×"


def _whole(step: float) -> int:
    """The nearest whole step, but never the start for what needs training."""
    return max(1, round(step)) if step > 0 else 0


def _worst(comparison: Comparison) -> str:
    ends = {run: comparison.kept(run).mean for run in comparison.curves}
    return max(ends, key=lambda run: ends[run] if math.isfinite(ends[run]) else -math.inf)


def _escape(cell: str) -> str:
    return " ".join(cell.replace("\\", "\\\\").replace("|", "\\|").split())


def _pad(cell: str, width: int, place: int) -> str:
    return cell.ljust(width) if place == 0 else cell.rjust(width)
