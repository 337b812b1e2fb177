"""`relexify methods`: what there is to choose from."""

from __future__ import annotations

from rich.table import Table

from relexify.cli.console import results
from relexify.methods.registry import METHODS

__all__ = ["methods"]


def methods() -> None:
    """List the initialisations that transfer knows."""
    shown = Table(header_style="bold", show_lines=True)
    for column in ("--method", "a target token becomes", "what it needs", "from"):
        shown.add_column(column, no_wrap=column == "--method")
    for name, method in sorted(METHODS.items()):
        shown.add_row(name, method.becomes, method.evidence, method.paper)
    results.print(shown)
    results.print(
        "Without vectors or text of the model's language its own embedding stands in; without a dictionary, words that "
        "both languages write alike."
    )
