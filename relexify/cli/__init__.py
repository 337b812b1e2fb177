"""The command line: each verb parses, calls one function and prints.

app.py        the command, its verbs, and how it ends when something fails
group.py      verbs that are imported when they are called
verbs/        the verbs, in one folder for each panel of the help
options.py    options that several verbs share
console.py, progress.py, summary.py   output: messages and tables, progress bars, results
option_names.py   how a command spells the options that messages of the library name
"""

import os
import sys
from io import TextIOWrapper

__all__ = ["main"]


def main() -> None:
    """Run the command; Ctrl-C ends it without a traceback, also while modules are imported and in its last lines."""
    _prepare_streams()
    try:
        from relexify.cli.app import main as run

        run()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(130)
    finally:
        # `python -m` ends with SIGINT, whatever the status, if a KeyboardInterrupt has left an exec of a string, as in
        # dataclass(). Python forgets this when it executes another string.
        exec("")


def _prepare_streams() -> None:
    """Open standard streams that are closed, and let those that are not in UTF-8 escape what they cannot write."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # the next file that is opened would take its number
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 (it stays open)
    for stream in (sys.stdout, sys.stderr):
        # In the locale C, Python writes bytes that are no text as they are, but no letters beyond ASCII.
        if isinstance(stream, TextIOWrapper) and stream.errors in ("strict", "surrogateescape"):
            stream.reconfigure(errors="backslashreplace")
