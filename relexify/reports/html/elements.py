"""Parts of a page: tables, dots, bars, key figures. All arguments are plain text; the results are HTML."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from html import escape

__all__ = [
    "commands",
    "definition_list",
    "dots",
    "figures",
    "hint",
    "legend",
    "notice",
    "round_numbers",
    "stacked_bars",
    "table",
    "with_whole_options",
]

_LEAST_RANGE = 0.1
"""Least range of an axis, as a share of its largest value."""
_NARROW = 4
"""Columns up to which a table is not as wide as the page."""


def table(rows: Sequence[Sequence[str]]) -> str:
    """Return a table of a header and rows; columns after the first are numbers. `**text**` is bold."""
    header, *body = rows
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in header)
    lines = [
        f'<tr><th scope="row"><bdi>{_cell(first)}</bdi></th>' + "".join(f"<td>{_cell(cell)}</td>" for cell in rest)
        for first, *rest in body
    ]
    narrow = ' class="narrow"' if len(header) <= _NARROW else ""
    return (
        f'<div class="scroll" role="group" aria-label="Table" tabindex="0"><table{narrow}>'
        f"<thead><tr>{head}</tr></thead><tbody>{'</tr>'.join(lines)}</tr></tbody></table></div>"
    )


def definition_list(entries: Mapping[str, str]) -> str:
    """Return names with their values."""
    pairs = (
        f"<div><dt>{escape(name)}</dt><dd><bdi>{escape(value)}</bdi></dd></div>" for name, value in entries.items()
    )
    return f"<dl>{''.join(pairs)}</dl>"


def figures(entries: Sequence[tuple[str, str, str]]) -> str:
    """Return key figures: each a value, its name and an explanation."""
    cards = (
        f'<div class="figure"><b>{escape(value)}</b><span>{escape(name)}</span><small>{escape(about)}</small></div>'
        for value, name, about in entries
    )
    return f'<div class="figures">{"".join(cards)}</div>'


def notice(kind: str, headline: str, details: Sequence[str] = (), *, advice: str = "") -> str:
    """Return a remark; if it has more than two details, each is an item of a list.

    Args:
        kind: `good`, `open`, `poor`, `unknown` or `note`.
        headline: A sentence, which is bold.
        details: Further sentences.
        advice: What to do next, shown below the headline with a link to the section `next`.
    """
    escaped = [with_whole_options(sentence) for sentence in details]
    if len(details) > 2:
        escaped = [f'<span class="item">{sentence}</span>' for sentence in escaped]
    following = f'<span class="next">Next: {escape(advice)}. <a href="#next">Commands</a></span>' if advice else ""
    return f'<p class="notice {escape(kind)}"><b>{escape(headline)}</b> {following}{" ".join(escaped)}</p>'


def hint(text: str) -> str:
    """Return a sentence on how to read what is above it."""
    return f'<p class="hint">{escape(text)}</p>'


def commands(title: str, lines: Sequence[str]) -> str:
    """Return commands to copy, if there are any, one per line, below a sentence."""
    code = "".join(f"<code>{with_whole_options(line)}</code>" for line in lines)
    copied = f'<pre class="commands" tabindex="0">{code}</pre>' if code else ""
    return f"<p>{with_whole_options(title)}</p>{copied}"


def dots(values: Mapping[str, float], *, marked: str = "") -> str:
    """Return a dot for each value on a common axis, with its number; the one called `marked` is highlighted.

    Bars would have to begin at zero, where differences of a few percent cannot be seen. The axis has numbers instead,
    and covers a tenth of the largest value at least, so that tiny differences do not look large.
    """
    finite = [value for value in values.values() if math.isfinite(value)]
    low, high = min(finite, default=0.0), max(finite, default=1.0)
    margin = max(0.06 * (high - low), (_LEAST_RANGE * abs(high) - (high - low)) / 2) or 1.0
    low, high = low - margin, high + margin
    ticks, decimals = round_numbers(low, high, most=8)

    def at(value: float) -> str:
        return f'style="--at:{(value - low) / (high - low):.4f}"'

    rows = [
        f'<div class="dot{" marked" if name == marked else ""}"><span>{escape(name)}</span>'
        f"<i {at(value) if math.isfinite(value) else 'hidden'}></i><b>{value:.3f}</b></div>"
        for name, value in values.items()
    ]
    axis = "".join(f"<small {at(tick)}>{tick:.{decimals}f}</small>" for tick in ticks)
    rows.append(f'<div class="dot axis" aria-hidden="true"><span></span><div>{axis}</div><b></b></div>')
    return f'<div class="dots">{"".join(rows)}</div>'


def legend(entries: Mapping[str, tuple[str, str]]) -> str:
    """Return a legend of colours: the name of each, and an explanation; the keys are CSS classes."""
    items = (
        f'<span><i class="{part}"></i><b>{escape(name)}</b> {escape(about)}</span>'
        for part, (name, about) in entries.items()
    )
    return f'<div class="legend explained">{"".join(items)}</div>'


def stacked_bars(rows: Mapping[str, Mapping[str, float]], names: Mapping[str, str]) -> str:
    """Return one bar per row, divided into parts.

    Args:
        rows: The size of each part, by row and part: integers, whose sum is shown, or shares.
        names: The name of each part, in the order of the parts; the key is its CSS class.
    """
    used = [part for part in names if any(row.get(part) for row in rows.values())]
    lines = []
    for title, row in rows.items():
        total = sum(row.values()) or 1
        parts = "".join(
            f'<i class="{part}" style="--share:{row[part] / total:.5f}" '
            f'title="{escape(names[part])}: {row[part] / total:.1%}"></i>'
            for part in used
            if row.get(part)
        )
        count = f"{total:,}" if isinstance(total, int) else ""
        shares = ", ".join(f"{names[part]} {row[part] / total:.1%}" for part in used if row.get(part))
        lines.append(
            f'<div class="stack"><span>{escape(title)}</span>'
            f'<div role="img" aria-label="{escape(shares)}">{parts}</div><b>{count}</b></div>'
        )
    return "".join(lines)


def with_whole_options(text: str) -> str:
    """Return a text whose options, such as `--corpus`, stay in one line: a browser would break it after the hyphens."""
    return re.sub(r"(?<![\w-])--[\w-]+", r'<span class="option">\g<0></span>', escape(text))


def round_numbers(low: float, high: float, *, smallest: float = 0.0, most: int = 6) -> tuple[list[float], int]:
    """Return a few round numbers in a range, at least `smallest` apart, and how many decimals they have."""
    step = 10 ** math.floor(math.log10((high - low) / 4))
    step *= next(factor for factor in (1, 2, 5, 10) if (high - low) / (factor * step) <= most)
    step = max(step, smallest)
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))  # ten times 1e-7 is slightly less than 1e-6
    first, last = math.ceil(low / step), math.floor(high / step)
    return [round(index * step, decimals) for index in range(first, last + 1)], decimals


def _cell(text: str) -> str:
    """Return the content of a cell; what follows a number, its deviation and its step, is small."""
    is_best = text.startswith("**")
    number, sign, rest = (text.strip("*") if is_best else text).partition(" ± ")
    number = f"<b>{escape(number)}</b>" if is_best else escape(number)
    return f"{number}<small>{sign}{escape(rest)}</small>" if sign else number
