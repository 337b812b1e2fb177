"""`relexify check`: find out whether a grafted model is broken."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from relexify.cli.console import emit
from relexify.cli.options import written
from relexify.cli.summary import print_next_steps, print_rows, print_summary

__all__ = ["check"]

BROKEN = 1
"""Exit status if a check finds a problem; that of wrong arguments is 2."""


def check(
    model: Annotated[Path, written("A folder written by relexify transfer, or train.")],
) -> None:
    """Check a grafted model: files, vocabulary, embeddings, special tokens, tokenizer, and whether it runs.

    The exit status is 0 if the model is intact, and 1 if it is broken; the reasons are printed.

    Example: relexify check gpt2-swahili
    """
    from relexify.grafting import check as check_graft
    from relexify.reports.next_steps import after_failed_check
    from relexify.storage.notes import read_notes

    found = check_graft(model)
    rows = [[result.name, "failed" if result.problems else "passed"] for result in found]
    print_rows(f"Checks of {model}", [["check", "result"], *rows])
    problems = [f"{result.name}: {problem}" for result in found for problem in result.problems]
    print_summary(problems or [f"{model} is intact."])
    if problems:
        print_next_steps(after_failed_check(model, read_notes(model)))
    emit(model=model, checks=found)
    if problems:
        raise typer.Exit(BROKEN)
