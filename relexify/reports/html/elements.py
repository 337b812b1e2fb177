"""Parts of a page: tables, bars, key figures. All arguments are plain text; the results are HTML."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape

__all__ = ["bars", "commands", "definition_list", "figures", "hint", "legend", "notice", "stacked_bars", "table"]


def table(rows: Sequence[Sequence[str]]) -> str:
    """Return a table of a header and rows; columns after the first are numbers. `**text**` is bold."""
    header, *body = rows
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in header)
    lines = [
        f'<tr><th scope="row"><bdi>{_cell(first)}</bdi></th>' + "".join(f"<td>{_cell(cell)}</td>" for cell in rest)
        for first, *rest in body
    ]
    return (
        f'<div class="scroll" tabindex="0"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{'</tr>'.join(lines)}</tr></tbody></table></div>"
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


def notice(kind: str, text: str) -> str:
    """Return a remark whose first sentence is its headline; its kind is `good`, `open`, `poor` or `unknown`."""
    headline, stop, rest = text.partition(". ")
    return f'<p class="notice {escape(kind)}"><b>{escape(headline + stop.strip())}</b> {escape(rest)}</p>'


def hint(text: str) -> str:
    """Return a sentence on how to read what stands above it."""
    return f'<p class="hint">{escape(text)}</p>'


def commands(title: str, lines: Sequence[str]) -> str:
    """Return commands to copy, if there are any, one per line, below a sentence."""
    code = "".join(f"<code>{_with_whole_options(line)}</code>" for line in lines)
    copied = f'<pre class="commands" tabindex="0">{code}</pre>' if code else ""
    return f"<p>{_with_whole_options(title)}</p>{copied}"


def bars(values: Mapping[str, float], *, marked: str = "") -> str:
    """Return one bar per value, with its number; the one called `marked` is highlighted."""
    largest = max(values.values(), default=0) or 1
    rows = (
        f'<div class="bar{" marked" if name == marked else ""}"><span>{escape(name)}</span>'
        f'<i style="--share:{value / largest:.4f}"></i><b>{value:.3f}</b></div>'
        for name, value in values.items()
    )
    return f'<div class="bars">{"".join(rows)}</div>'


def legend(names: Mapping[str, str]) -> str:
    """Return what colours mean; the keys are CSS classes."""
    entries = (f'<span><i class="{part}"></i>{escape(name)}</span>' for part, name in names.items())
    return f'<div class="legend">{"".join(entries)}</div>'


def stacked_bars(rows: Mapping[str, Mapping[str, float]], names: Mapping[str, str]) -> str:
    """Return one bar per row, divided into parts.

    Args:
        rows: The size of each part, by row and part: integers, whose sum is shown, or shares.
        names: What each part is called, in the order of the parts; the key is its CSS class.
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


def _with_whole_options(text: str) -> str:
    # A browser would break the line between the hyphens and the name of an option.
    return re.sub(r"(?<!\S)--[\w-]+", r'<span class="option">\g<0></span>', escape(text))


def _cell(text: str) -> str:
    """Return the content of a cell; what follows a number, its deviation and its step, is small."""
    is_best = text.startswith("**")
    number, sign, rest = (text.strip("*") if is_best else text).partition(" ± ")
    number = f"<b>{escape(number)}</b>" if is_best else escape(number)
    return f"{number}<small>{sign}{escape(rest)}</small>" if sign else number
