"""The command `relexify`, and how it ends when something is wrong."""

from __future__ import annotations

import logging
import os
import sys
import traceback
from typing import Annotated, Any, NoReturn

import typer
from rich.markup import escape

from relexify.cli import (
    align,
    bilingual,
    compress,
    demo,
    evaluate,
    geometry,
    grid,
    inspect,
    methods,
    run,
    train,
    transfer,
    trelm,
    vectors,
)
from relexify.cli.console import console, log_to_console, quieten_libraries, results
from relexify.errors import RelexifyError

__all__ = ["app", "main"]

INTERRUPTED = 130

app = typer.Typer(
    name="relexify",
    help="Give a pretrained language model a new language: swap the lexicon, keep the grammar.\n\n"
    "Start with **relexify demo**, then **relexify transfer --help**.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.command("transfer")(transfer.transfer)
app.command("train")(train.train)
app.command("bilingual")(bilingual.bilingual)
app.command("export")(bilingual.export)
app.command("trelm")(trelm.trelm)
app.command("evaluate")(evaluate.evaluate)
app.command("compress")(compress.compress)
app.command("expand")(compress.expand)
app.command("run")(run.run)
app.command("compare")(run.compare)
app.command("grid")(grid.grid)
app.add_typer(vectors.app, name="vectors")
app.command("align")(align.align)
app.command("inspect")(inspect.inspect)
app.command("geometry")(geometry.geometry)
app.command("methods")(methods.methods)
app.command("demo")(demo.demo)


def _show_version(wanted: bool) -> None:
    if wanted:
        from relexify.version import __version__

        results.print(__version__, highlight=False)
        raise typer.Exit


@app.callback()
def options(
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback when something fails.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show warnings and results only.")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and stop.", is_eager=True, callback=_show_version)
    ] = False,
) -> None:
    """Options of every verb."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    log_to_console(logging.DEBUG if debug else logging.WARNING if quiet else logging.INFO)
    if os.environ.get("RANK", "0") != "0":  # one of several processes of torchrun or accelerate: the first one speaks
        log_to_console(logging.ERROR)
        results.quiet = True


def main() -> None:
    """Run the command line; what is wrong with the input is told in a sentence, with exit status 2."""
    debug = _move_to_front("--debug")
    for option in ("--quiet", "-q"):
        _move_to_front(option)
    quieten_libraries()
    try:
        status = app(standalone_mode=False)
    except Exception as error:
        if debug:
            traceback.print_exc()
        _stop(*_explained(error))
    if status == INTERRUPTED:
        console.print("stopped: finished steps are kept, and the same command goes on from them", highlight=False)
    sys.exit(status)


def _move_to_front(option: str) -> bool:
    """Let an option of every verb stand anywhere, up to a lone `--`."""
    end = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    ours, rest = sys.argv[1:end], sys.argv[end:]
    if option not in ours:
        return False
    sys.argv[1:] = [option, *(argument for argument in ours if argument != option), *rest]
    return True


def _explained(error: Exception) -> tuple[str, int]:
    """A sentence about an error, and the exit status."""
    if isinstance(error, RelexifyError):
        return str(error), 2
    if isinstance(error, OSError):
        return f"{error.filename or 'the system'}: {error.strerror}" if error.strerror else str(error), 2
    if hasattr(error, "format_message"):  # a mistake in the command itself, which typer found
        return _usage(error), 2
    name = type(error).__name__
    return f"relexify failed unexpectedly ({name}: {error}): run it again with --debug and report what it shows", 1


def _usage(error: Any) -> str:
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        sys.exit(2)
    message = error.format_message().rstrip(".")
    return f"{message}: see {context.command_path} --help" if context else message


def _stop(message: str, status: int) -> NoReturn:
    sentence = " ".join(message.split())
    console.print(f"[bold red]error:[/] {escape(sentence)}", highlight=False, soft_wrap=True)
    sys.exit(status)
