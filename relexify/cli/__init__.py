"""The command line: each verb parses, calls one function and prints.

app.py        the command, its verbs, and how it ends when something fails
group.py      verbs that are imported when they are called
verbs/        the verbs, in one folder for each panel of the help
options.py    options that several verbs share
console.py, progress.py, summary.py   output: messages and tables, progress bars, results
"""

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command; Ctrl-C ends it without a traceback even while its modules are imported."""
    try:
        from relexify.cli.app import main as run
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(130)
    run()
