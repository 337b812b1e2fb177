"""What the user sees: bars, messages, tables. The only room that prints."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.logging import RichHandler
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from relexify.progress import Advance
from relexify.progress import Progress as Bars

__all__ = ["bars", "console", "log_to_console", "results", "table"]

console = Console(stderr=True)
"""Progress, messages and errors."""
results = Console()
"""What was asked for."""


@contextmanager
def bars() -> Iterator[Bars]:
    """A `Progress` that draws one bar a task and takes it away when the task is done."""
    display = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    )

    @contextmanager
    def progress(description: str, total: int | None = None) -> Iterator[Advance]:
        task = display.add_task(description, total=total)
        try:
            yield lambda amount: display.advance(task, amount)
        finally:
            display.remove_task(task)

    with display:
        yield progress


def log_to_console(level: int) -> None:
    """Show what the library says, and keep the libraries below it quiet."""
    handler = RichHandler(console=console, show_time=False, show_path=False, show_level=True, markup=False)
    logger = logging.getLogger("relexify")
    logger.handlers = [handler]
    logger.setLevel(level)
    logger.propagate = False
    import transformers

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()


def table(title: str, *columns: str) -> Table:
    """An empty table in the house's dress; columns after the first are numbers."""
    made = Table(title=title, title_justify="left", title_style="bold", header_style="bold")
    for place, column in enumerate(columns):
        made.add_column(escape(column), justify="left" if place == 0 else "right")
    return made
