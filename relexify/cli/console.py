"""Output on the console: messages, logs and tables. Only this package prints."""

from __future__ import annotations

import logging
import os
import sys
import warnings

from rich.console import Console
from rich.markup import escape
from rich.table import Table

__all__ = ["console", "log_to_console", "quieten_libraries", "results", "shorten", "table"]

MAX_MESSAGE = 1_000
"""Characters of a message that are shown; user input inside it may be arbitrarily long."""

console = Console(stderr=True, emoji=False)
"""Progress, messages and errors, on stderr."""
results = Console(emoji=False)
"""Results, on stdout."""

_QUIET_LIBRARIES = {
    "TRANSFORMERS_VERBOSITY": "error",
    "TRANSFORMERS_NO_ADVISORY_WARNINGS": "1",
    "TQDM_DISABLE": "1",  # downloads from the Hub show their bars anyway
}


def log_to_console(level: int) -> None:
    """Show the log of the library, one line per message."""
    logger = logging.getLogger("relexify")
    logger.handlers = [_Lines()]
    logger.setLevel(level)
    logger.propagate = False


def quieten_libraries() -> None:
    """Keep progress bars and warnings of other libraries off the terminal; call it before they are imported."""
    for name, value in _QUIET_LIBRARIES.items():
        os.environ.setdefault(name, value)
    if not sys.warnoptions:
        warnings.simplefilter("ignore")
    if "huggingface_hub" in sys.modules:
        logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
    if transformers := sys.modules.get("transformers"):
        transformers.utils.logging.set_verbosity_error()
        transformers.utils.logging.disable_progress_bar()


def shorten(message: str) -> str:
    """Return a message with its middle left out if it is too long."""
    if len(message) <= MAX_MESSAGE:
        return message
    return f"{message[: MAX_MESSAGE // 2]} … {message[-MAX_MESSAGE // 2 :]}"


def table(title: str, *columns: str) -> Table:
    """Return an empty table in relexify's style; columns after the first are right-aligned."""
    empty = Table(
        title=escape(title),
        title_justify="left",
        title_style="bold",
        header_style="bold",
        min_width=min(len(title) + 2, results.width),
    )
    for index, column in enumerate(columns):
        empty.add_column(escape(column), justify="left" if index == 0 else "right", overflow="fold")
    return empty


class _Lines(logging.Handler):
    """Log messages as single lines, never wrapped, so that a log can be searched."""

    def emit(self, record: logging.LogRecord) -> None:
        style = "yellow" if record.levelno >= logging.WARNING else "dim"
        name = "" if record.levelno == logging.INFO else f"{record.levelname.lower()}: "
        text = escape(shorten(f"{name}{record.getMessage()}"))
        console.print(f"[{style}]·[/] {text}", highlight=False, soft_wrap=True)
