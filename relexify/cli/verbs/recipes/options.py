"""`relexify options`: what recipes and --set can set."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape

from relexify.cli.console import emit, print_table
from relexify.cli.console import table as new_table

__all__ = ["options"]


def options(
    table: Annotated[str | None, typer.Argument(help="transfer, training, …; all tables if not given.")] = None,
) -> None:
    """List the keys of recipe tables, which --set takes, with their defaults.

    Example: relexify options transfer
    """
    from relexify.recipes.file.settings import list_options

    tables = list_options(table)
    for name, keys in tables.items():
        shown = new_table(f"[{name}]", "key", "default", "meaning")
        shown.columns[2].justify = "left"
        for key in keys:
            meaning = key.meaning
            if any(f"`{choice}`" not in meaning for choice in key.choices):  # otherwise it explains all of them
                meaning += f" One of: {', '.join(key.choices)}."
            shown.add_row(escape(key.name), escape(key.default), escape(meaning))
        print_table(shown)
    emit(tables=tables)
