"""The command line: each verb parses, calls one function and prints.

app.py        the command, its panels, and how it ends when something fails
verbs/        the verbs
options.py    options that several verbs share
console.py, progress.py, summary.py   output: messages and tables, progress bars, results
"""

from relexify.cli.app import main

__all__ = ["main"]
