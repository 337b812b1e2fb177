"""Tables and plain text in Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from relexify.errors import InputError

__all__ = ["markdown_table", "plain_text"]

_CONTROLS = re.compile("[\0-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]+")


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in GitHub's Markdown, aligned; columns after the first are numbers.

    Raises:
        InputError: A row is longer or shorter than the header.
    """
    escaping = str.maketrans({"\\": "\\\\", "|": "\\|", "<": "&lt;"})
    cells = [[" ".join(cell.translate(escaping).split()) for cell in row] for row in (header, *rows)]
    wrong = next((row for row in cells if len(row) != len(header)), None)
    if wrong is not None:
        raise InputError(f"the row {wrong} does not fit the {len(header)} columns of its table: give one cell each")
    widths = [max(3, *map(len, column)) for column in zip(*cells, strict=True)]
    rule = [("-" * width if column == 0 else "-" * (width - 1) + ":") for column, width in enumerate(widths)]
    lines = [
        [first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True))]
        for first, *rest in cells
    ]
    return "".join(f"| {' | '.join(line)} |\n" for line in (lines[0], rule, *lines[1:]))


def plain_text(text: str) -> str:
    """Return text on one line, in which names of others make no links, headings, tables or HTML of Markdown."""
    line = " ".join(_CONTROLS.sub(" ", text).split())
    return re.sub(r"([\\`<>\[\]|]|^[#+*-]|\*\*)", r"\\\1", line)
