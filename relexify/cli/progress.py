"""How far long work is: bars on a terminal, a line for each finished stretch in a log."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Display

from relexify.cli.console import console
from relexify.progress import Advance, Progress, silent

__all__ = ["bars"]

WORTH_A_LINE = 1.0
"""Seconds: work that is done sooner is not told of in a log."""
BETWEEN_LINES = 60.0
"""Seconds between two lines about the same work."""


@contextmanager
def bars() -> Iterator[Progress]:
    """A `Progress` for whoever is watching: a terminal, a log, or, with --quiet, nobody."""
    if not logging.getLogger("relexify").isEnabledFor(logging.INFO):
        yield silent
    elif console.is_terminal:
        with _drawn() as progress:
            yield progress
    else:
        yield _written


@contextmanager
def _drawn() -> Iterator[Progress]:
    """One bar for each task, taken away when the task is done."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn())
    display = Display(*columns, MofNCompleteColumn(), TimeRemainingColumn(), console=console, transient=True)

    @contextmanager
    def progress(description: str, total: int | None = None) -> Iterator[Advance]:
        task = display.add_task(escape(description), total=total)
        try:
            yield lambda amount: display.advance(task, amount)
        finally:
            display.remove_task(task)

    with display:
        yield progress


@contextmanager
def _written(description: str, total: int | None = None) -> Iterator[Advance]:
    """One line when long work is done, and one a minute until then."""
    start = told = time.monotonic()
    done = 0

    def advance(amount: int) -> None:
        nonlocal done, told
        done += amount
        if time.monotonic() - told > BETWEEN_LINES:
            told = time.monotonic()
            _tell(f"{description}: {min(done / total, 1):.0%}" if total else f"{description}: {done:,}")

    yield advance
    if (seconds := time.monotonic() - start) > WORTH_A_LINE:
        _tell(f"{description}: done in {seconds:.0f} s")


def _tell(text: str) -> None:
    console.print(f"[dim]·[/] {escape(text)}", highlight=False, soft_wrap=True)
