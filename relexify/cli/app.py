"""The command `relexify`, and how it ends when something is wrong."""

from __future__ import annotations

import logging
import os
import sys
import traceback
from typing import Annotated

import typer

from relexify.cli import align, demo, inspect, methods, transfer, vectors
from relexify.cli.console import console, log_to_console
from relexify.errors import RelexifyError

__all__ = ["app", "main"]

app = typer.Typer(
    name="relexify",
    help="Give a pretrained language model a new language: swap the lexicon, keep the grammar.\n\n"
    "Start with [bold]relexify demo[/], then [bold]relexify transfer --help[/].",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.command("transfer")(transfer.transfer)
app.add_typer(vectors.app, name="vectors")
app.command("align")(align.align)
app.command("inspect")(inspect.inspect)
app.command("methods")(methods.methods)
app.command("demo")(demo.demo)


@app.callback()
def options(
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback when something fails.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show warnings and results only.")] = False,
    version: Annotated[bool, typer.Option("--version", help="Show the version and stop.", is_eager=True)] = False,
) -> None:
    """Options of every verb."""
    if version:
        from relexify import __version__

        typer.echo(__version__)
        raise typer.Exit
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    log_to_console(logging.DEBUG if debug else logging.WARNING if quiet else logging.INFO)


def main() -> None:
    """Run the command line; what is wrong with the input is told in a sentence, with exit status 2."""
    debug = "--debug" in sys.argv
    if debug:  # wherever it stands
        sys.argv = [sys.argv[0], "--debug", *(argument for argument in sys.argv[1:] if argument != "--debug")]
    try:
        app()
    except KeyboardInterrupt:
        _stop("stopped; finished steps are kept, and the same command goes on from them", 130)
    except (RelexifyError, OSError) as error:
        if debug:
            traceback.print_exc()
        _stop(_sentence(error), 2)
    except Exception as error:
        if debug:
            traceback.print_exc()
        _stop(f"relexify failed unexpectedly ({type(error).__name__}: {error}); run it again with --debug", 1)


def _sentence(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename or 'the system'}: {error.strerror}"
    return str(error)


def _stop(message: str, status: int) -> None:
    console.print(f"[bold red]error:[/] {message[:1].lower() + message[1:]}", highlight=False, soft_wrap=True)
    sys.exit(status)
