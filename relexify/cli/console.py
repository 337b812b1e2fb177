"""What the user sees: messages and tables. The only room that prints."""

from __future__ import annotations

import logging
import os
import sys
import warnings

from rich.console import Console
from rich.markup import escape
from rich.table import Table

__all__ = ["console", "log_to_console", "quieten_libraries", "results", "table"]

console = Console(stderr=True)
"""Progress, messages and errors."""
results = Console()
"""What was asked for."""

_QUIET_LIBRARIES = {
    "TRANSFORMERS_VERBOSITY": "error",
    "TRANSFORMERS_NO_ADVISORY_WARNINGS": "1",
    "TQDM_DISABLE": "1",  # but for bars that ask for the terminal themselves, as downloads from the Hub do
}


def log_to_console(level: int) -> None:
    """Show what the library says, a line for each message."""
    logger = logging.getLogger("relexify")
    logger.handlers = [_Lines()]
    logger.setLevel(level)
    logger.propagate = False


def quieten_libraries() -> None:
    """Keep bars and warnings of the libraries below off the terminal, best before they are imported."""
    for name, value in _QUIET_LIBRARIES.items():
        os.environ.setdefault(name, value)
    if not sys.warnoptions:
        warnings.simplefilter("ignore")
    if "huggingface_hub" in sys.modules:
        logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
    if transformers := sys.modules.get("transformers"):
        transformers.utils.logging.set_verbosity_error()
        transformers.utils.logging.disable_progress_bar()


def table(title: str, *columns: str) -> Table:
    """An empty table in the house's dress; columns after the first are numbers."""
    made = Table(
        title=escape(title),
        title_justify="left",
        title_style="bold",
        header_style="bold",
        min_width=min(len(title) + 2, results.width),
    )
    for place, column in enumerate(columns):
        made.add_column(escape(column), justify="left" if place == 0 else "right", overflow="fold")
    return made


class _Lines(logging.Handler):
    """Messages as lines that a log can be searched for, never broken to fit a screen."""

    def emit(self, record: logging.LogRecord) -> None:
        dress = "yellow" if record.levelno >= logging.WARNING else "dim"
        name = "" if record.levelno == logging.INFO else f"{record.levelname.lower()}: "
        text = escape(f"{name}{record.getMessage()}")
        console.print(f"[{dress}]·[/] {text}", highlight=False, soft_wrap=True)
