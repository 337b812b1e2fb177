"""Print results of a run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape

from relexify.cli.console import console, emit, print_table, results, table

if TYPE_CHECKING:
    from relexify.reports.next_steps import NextStep
    from relexify.scoring import Score
    from relexify.steps import ResultTable

__all__ = [
    "print_commands",
    "print_measured",
    "print_model_folder",
    "print_next_steps",
    "print_plan",
    "print_rows",
    "print_summary",
]


def print_summary(summary: Iterable[ResultTable | str]) -> None:
    """Print the summary of a step's result: tables and sentences."""
    for part in summary:
        if isinstance(part, str):
            sentence = console.option_names.spell(part)
            results.print(escape(sentence), highlight=False, soft_wrap=not results.is_terminal)
        else:
            print_rows(part.title, part.rows)


def print_measured(scores: Iterable[Score]) -> None:
    """Print scores, one per line."""
    from relexify.reports.tables import measured_rows

    print_rows("Scores", measured_rows(scores))


def print_rows(title: str, rows: Sequence[Sequence[str]]) -> None:
    """Print rows of text as a table, the header first; cells between two `**` are bold."""
    header, *body = rows
    shown = table(title, *header)
    for row in body:
        shown.add_row(*map(_render_cell, row))
    print_table(shown)


def print_model_folder(output: Path) -> None:
    """Print where the model is, and its report."""
    report = output / "report.html"
    described = f", its report is [bold]{escape(str(report))}[/]" if report.is_file() else ""
    results.print(f"\nThe model is in [bold]{escape(str(output))}[/]{described}", soft_wrap=True)


def print_plan(rows: Sequence[tuple[str, object]]) -> None:
    """Print what a command would do."""
    shown = table("Dry run: no errors were found", "", "what would be done")
    shown.columns[1].justify = "left"
    spell = console.option_names.spell
    spelled = [(name, spell(value) if isinstance(value, str) else value) for name, value in rows]
    for name, value in spelled:
        shown.add_row(escape(name), escape(str(value)))
    print_table(shown)
    emit(plan=dict(spelled))


def print_next_steps(steps: Iterable[NextStep]) -> None:
    """Print what to do next, each step with its commands."""
    for index, step in enumerate(steps):
        print_commands(step.sentence("" if index else "Next,"), step.commands)


def print_commands(title: str, commands: Iterable[str]) -> None:
    """Print a sentence, and below it the commands for it, ready to be pasted."""
    results.print(title, highlight=False, markup=False, soft_wrap=True)
    for command in commands:
        results.print(f"  {command}", highlight=False, markup=False, soft_wrap=True)


def _render_cell(text: str) -> str:
    if text.startswith("**"):
        return f"[bold]{escape(text.strip('*'))}[/]"
    return escape(text)
