"""`relexify methods` and `relexify options`: what can be selected and set."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from relexify.cli.console import emit, print_table, results, table

__all__ = ["methods", "options"]


def methods() -> None:
    """List the initialisations that transfer can use."""
    from relexify.methods.registry import METHODS

    shown = Table(header_style="bold", show_lines=True)
    for column in ("--method", "a target token becomes", "evidence", "source"):
        shown.add_column(column, no_wrap=column == "--method")
    for name, method in sorted(METHODS.items()):
        shown.add_row(name, method.becomes, method.evidence, method.paper)
    print_table(shown)
    results.print(
        "Without vectors or text in the model's language, its own embedding is used; without a dictionary, words "
        "spelled identically in both languages."
    )
    names = ("becomes", "evidence", "paper")
    emit(methods={name: {key: getattr(method, key) for key in names} for name, method in sorted(METHODS.items())})


def options(
    table_name: Annotated[
        str | None, typer.Argument(metavar="[TABLE]", help="transfer, training, …; all tables if not given.")
    ] = None,
) -> None:
    """List the keys of recipe tables, which --set takes, with their defaults.

    Example: relexify options transfer
    """
    from relexify.recipes.settings import describe_options

    tables = describe_options(table_name)
    for name, keys in tables.items():
        shown = table(f"[{name}]", "key", "default", "meaning")
        shown.columns[2].justify = "left"
        for key in keys:
            shown.add_row(escape(key.name), escape(key.default), escape(key.meaning))
        print_table(shown)
    emit(tables=tables)
