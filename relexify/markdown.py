"""Tables in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from relexify.errors import InputError

__all__ = ["markdown_table"]


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in GitHub's Markdown, aligned; columns after the first are numbers.

    Raises:
        InputError: A row is longer or shorter than the header.
    """
    escaping = str.maketrans({"\\": "\\\\", "|": "\\|"})
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
