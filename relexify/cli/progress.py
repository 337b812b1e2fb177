"""Progress on the console: bars on a terminal, one line per finished task in a log."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

from relexify.cli.console import console
from relexify.progress import Advance, report_to

__all__ = ["bars"]

MINIMUM_SECONDS = 1.0
"""Tasks that take less time are not logged."""
LOG_INTERVAL = 60.0
"""Seconds between two lines about the same task."""


@contextmanager
def bars() -> Iterator[None]:
    """Show the progress of the work inside: as bars on a terminal, as lines in a log, not at all with --quiet."""
    if not logging.getLogger("relexify").isEnabledFor(logging.INFO):
        yield
    elif console.is_terminal:
        with _terminal_bars():
            yield
    else:
        with report_to(_log_lines):
            yield


@contextmanager
def _terminal_bars() -> Iterator[None]:
    """Show one bar per task, and remove it when the task is done."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn())
    display = Progress(*columns, MofNCompleteColumn(), TimeRemainingColumn(), console=console, transient=True)

    @contextmanager
    def reporter(description: str, total: int | None = None) -> Iterator[Advance]:
        task = display.add_task(escape(description), total=total)
        try:
            yield lambda amount: display.advance(task, amount)
        finally:
            display.remove_task(task)

    with display, report_to(reporter):
        yield


@contextmanager
def _log_lines(description: str, total: int | None = None) -> Iterator[Advance]:
    """Print one line when a long task is done, and one per minute until then."""
    start = last_line = time.monotonic()
    done = 0

    def advance(amount: int) -> None:
        nonlocal done, last_line
        done += amount
        if time.monotonic() - last_line > LOG_INTERVAL:
            last_line = time.monotonic()
            _print_line(f"{description}: {min(done / total, 1):.0%}" if total else f"{description}: {done:,}")

    yield advance
    if (seconds := time.monotonic() - start) > MINIMUM_SECONDS:
        _print_line(f"{description}: done in {seconds:.0f} s")


def _print_line(text: str) -> None:
    console.print(f"[dim]·[/] {escape(text)}", highlight=False, soft_wrap=True)
