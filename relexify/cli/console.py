"""Output on the console: messages, logs, tables and json. Only this package prints."""

from __future__ import annotations

import json
import logging
import math
import os
import re
import sys
import warnings
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from io import StringIO
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from relexify.cli.option_names import OptionNames

__all__ = [
    "console",
    "emit",
    "log_to_console",
    "print_table",
    "quieten_libraries",
    "results",
    "results_as_json",
    "say_assisting",
    "shorten",
    "table",
]

MAX_MESSAGE = 1_000
"""Characters of a message that are shown; user input inside it may be arbitrarily long."""
UNLIMITED = 10_000
"""Width of a table that is not shown on a terminal, so that a program that reads it finds no line breaks."""

_CONTROLS = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that control a terminal or the direction of a line, and bytes that are not UTF-8."""


class _Console(Console):
    """A console on which the content of files cannot control the terminal."""

    def render_str(self, text: str, **options: Any) -> Text:
        """Return a string with its control characters as escapes; rich calls this for all strings, also in tables."""
        visible = _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
        return super().render_str(visible, **options)


class _Messages(_Console):
    """Messages; those that cannot be written, as on a full disk, are dropped, so that the run continues.

    Attributes:
        option_names: The options of the command that runs, as messages and results spell them.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.option_names = OptionNames()

    def print(self, *objects: Any, **options: Any) -> None:
        """Print as rich does."""
        try:
            super().print(*objects, **options)
        except OSError:
            self.quiet = True
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())  # Python would try again at its end


console = _Messages(stderr=True, emoji=False)
"""Progress, messages and errors, on stderr."""
results = _Console(emoji=False)
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


def results_as_json(enabled: bool) -> None:
    """Print nothing on stdout except the json object that `emit` is given."""
    results.quiet = enabled


def say_assisting(output: Path) -> None:
    """Say that this process writes no output; `RANK` may have been set by a scheduler, for another purpose."""
    console.print(f"RANK is not 0: this process only counts; the one with RANK=0 writes {output}", highlight=False)


def emit(**result: object) -> None:
    """Print the result of a command as one json object, if json was requested; call it once."""
    # Only the first process of a distributed launch prints.
    if results.quiet and os.environ.get("RANK", "0") == "0":
        is_unicode = (sys.stdout.encoding or "utf-8").lower().startswith("utf")
        text = json.dumps(_as_plain_data(result), ensure_ascii=not is_unicode)
        sys.stdout.write(_CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n")


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


def print_table(shown: Table) -> None:
    """Print a table: in a box on a terminal, line by line on one that is too narrow for it, and plain in a pipe."""
    if not results.is_terminal:
        shown.box, shown.pad_edge, shown.show_lines, shown.min_width = None, False, False, None
        plain = _Console(file=StringIO(), width=UNLIMITED, emoji=False)
        title, shown.title = shown.title, None  # the table would wrap its title at its own width
        with plain.capture() as captured:
            if title is not None:
                plain.print(f"[bold]{title}[/]", highlight=False)
            plain.print(shown)
        lines = "\n".join(line.rstrip() for line in captured.get().splitlines())
        results.print(lines, markup=False, highlight=False, soft_wrap=True)
    elif Measurement.get(results, results.options.update(max_width=UNLIMITED), shown).minimum > results.width:
        if shown.title:
            results.print(f"[bold]{shown.title}[/]")
        # One block per row, with the name of the column before each cell.
        names = [str(column.header) for column in shown.columns]
        for first, *rest in zip(*(column.cells for column in shown.columns), strict=True):
            results.print(f"[bold]{first}[/]", highlight=False)
            for name, cell in zip(names[1:], rest, strict=True):
                results.print(f"  {name}: {cell}" if name else f"  {cell}", highlight=False)
    else:
        results.print(shown)


def _as_plain_data(value: object) -> Any:
    """Return a result as data for json; NaN and infinity, which json does not have, as null."""
    if is_dataclass(value) and not isinstance(value, type):
        return {entry.name: _as_plain_data(getattr(value, entry.name)) for entry in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _as_plain_data(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_as_plain_data(entry) for entry in value]
    if hasattr(value, "tolist"):  # an array, or a number of numpy
        return _as_plain_data(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return str(value) if isinstance(value, Path) else value


class _Lines(logging.Handler):
    """Log messages as single lines, never wrapped, so that a log can be searched.

    A warning is shown once, and so are messages with the attribute `once`: a command that tries several methods would
    repeat them for each.
    """

    def __init__(self) -> None:
        super().__init__()
        self.shown = set[str]()

    def emit(self, record: logging.LogRecord) -> None:
        is_warning = record.levelno >= logging.WARNING
        style = "yellow" if is_warning else "dim"
        name = "" if record.levelno == logging.INFO else f"{record.levelname.lower()}: "
        text = escape(shorten(f"{name}{console.option_names.spell(record.getMessage())}"))
        if is_warning or getattr(record, "once", False):
            if text in self.shown:
                return
            self.shown.add(text)
        console.print(f"[{style}]·[/] {text}", highlight=False, soft_wrap=True)
