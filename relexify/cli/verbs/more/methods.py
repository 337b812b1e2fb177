"""`relexify methods`: the initialisations."""

from __future__ import annotations

from rich.table import Table

from relexify.cli.console import emit, print_table, results

__all__ = ["methods"]


def methods() -> None:
    """List the initialisations that transfer can use."""
    from relexify.methods.registry import METHODS
    from relexify.systems.transfer.options import Transfer

    shown = Table(header_style="bold", show_lines=True)
    for column in ("--method", "a target token becomes", "evidence"):
        shown.add_column(column, no_wrap=column == "--method")
    for name, method in sorted(METHODS.items()):
        shown.add_row(f"{name} (default)" if name == Transfer.method else name, method.becomes, method.evidence)
    print_table(shown)
    results.print(
        "The source pieces of a token are the source tokens that spell it; shared tokens are in both vocabularies, and "
        "most methods copy them. Without vectors or text in the model's language, its own embedding is used; without a "
        "dictionary, words spelled identically in both languages. docs/methods.md has the equation and the paper of "
        "each method."
    )
    names = ("becomes", "evidence", "paper")
    emit(methods={name: {key: getattr(method, key) for key in names} for name, method in sorted(METHODS.items())})
