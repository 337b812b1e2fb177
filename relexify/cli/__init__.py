"""The command line: one file per verb, each parses, calls one function and prints."""

from relexify.cli.app import main

__all__ = ["main"]
