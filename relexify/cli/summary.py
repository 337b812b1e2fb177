"""Print results of a run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape

from relexify.cli.console import results, table
from relexify.steps import ResultTable

if TYPE_CHECKING:
    from relexify.scoring import Score

__all__ = ["print_measured", "print_model_folder", "print_rows", "print_summary"]


def print_summary(summary: Iterable[ResultTable | str]) -> None:
    """Print the tables and sentences that a step summarises its result with."""
    for part in summary:
        if isinstance(part, ResultTable):
            print_rows(part.title, part.rows)
        else:
            results.print(escape(part), highlight=False)


def print_measured(scores: Iterable[Score]) -> None:
    """Print scores, one per line."""
    rows = [["task", "metric", "value", "examples"]]
    for score in scores:
        arrow = "↑" if score.higher_is_better else "↓"
        rows.append([score.task, f"{score.metric} {arrow}", f"{score.value:.3f}", f"{score.examples:,}"])
    print_rows("Scores", rows)


def print_rows(title: str, rows: Sequence[Sequence[str]]) -> None:
    """Print rows of text as a table, the header first; cells between two `**` are bold."""
    header, *body = rows
    shown = table(title, *header)
    for row in body:
        shown.add_row(*map(_cell, row))
    results.print(shown)


def print_model_folder(output: Path) -> None:
    """Print where the model is."""
    results.print(f"\nThe model is in [bold]{escape(str(output))}[/]", soft_wrap=True)


def _cell(text: str) -> str:
    if text.startswith("**"):
        return f"[bold]{escape(text.strip('*'))}[/]"
    return escape(text)
