"""Progress on the console: bars on a terminal, one line per finished task in a log."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.markup import escape

from relexify.cli.console import console
from relexify.progress import Advance, format_duration, report_to

__all__ = ["bars"]

MINIMUM_SECONDS = 1.0
"""Tasks that take less time are not logged."""
LOG_INTERVAL = 60.0
"""Seconds between two lines about the same task."""
SPEED_PERIOD = 3_600.0
"""Seconds over which the remaining time is estimated; a step of a training may take minutes."""


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
    # Imported here, since not every command gets as far as showing progress.
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

    display = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[status]}"),
        console=console,
        transient=True,
        speed_estimate_period=SPEED_PERIOD,
    )

    @contextmanager
    def reporter(description: str, total: int | None = None) -> Iterator[Advance]:
        task = display.add_task(escape(description), total=total, status="")

        def advance(amount: int, status: str = "") -> None:
            display.advance(task, amount)
            if status:
                display.update(task, status=escape(status))

        try:
            yield advance
        finally:
            display.remove_task(task)

    with display, report_to(reporter):
        yield


@contextmanager
def _log_lines(description: str, total: int | None = None) -> Iterator[Advance]:
    """Print one line when a long task is done, and one per minute until then."""
    start = last_line = time.monotonic()
    done, latest = 0, ""
    first: tuple[float, int] | None = None  # time and units of the first report, which may contain earlier work

    def advance(amount: int, status: str = "") -> None:
        nonlocal done, last_line, first, latest
        done, latest, now = done + amount, status or latest, time.monotonic()
        if now - last_line > LOG_INTERVAL:
            last_line = now
            parts = [f"{description}: {done:,}"]
            if total:
                parts = [f"{description}: {min(done, total):,} of {total:,} ({min(done / total, 1):.0%})"]
            if latest:
                parts.append(latest)
            if total and first is not None and done > first[1]:
                left = (now - first[0]) / (done - first[1]) * max(0, total - done)
                parts.append(f"{format_duration(left)} left")
            _print_line(", ".join(parts))
        first = first or (now, done)

    yield advance
    if (seconds := time.monotonic() - start) > MINIMUM_SECONDS:
        _print_line(f"{description}: done in {format_duration(seconds)}")


def _print_line(text: str) -> None:
    console.print(f"[dim]·[/] {escape(text)}", highlight=False, soft_wrap=True)
