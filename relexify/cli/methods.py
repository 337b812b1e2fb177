"""`relexify methods`: what there is to choose from."""

from __future__ import annotations

from rich.table import Table

from relexify.cli.console import results
from relexify.recipes.recipe import METHODS

__all__ = ["methods"]


def methods() -> None:
    """List the initialisations that transfer knows."""
    shown = Table(header_style="bold")
    shown.add_column("--method")
    shown.add_column("what a new token becomes")
    for name, description in METHODS.items():
        shown.add_row(name, description)
    results.print(shown)
