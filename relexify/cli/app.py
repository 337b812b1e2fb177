"""The command `relexify`: its verbs, and how it ends when something fails."""

from __future__ import annotations

import logging
import os
import signal
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Annotated, Any, ClassVar

import typer
from rich.markup import escape

from relexify.cli.console import (
    console,
    log_to_console,
    quieten_libraries,
    results,
    results_as_json,
    shorten,
)
from relexify.cli.group import HELP_OPTIONS, Verb, VerbGroup
from relexify.cli.option_names import OptionNames
from relexify.errors import InputError, RelexifyError, is_panic

__all__ = ["app", "main"]

INTERRUPTED = 130
"""Exit status after Ctrl-C."""
TERMINATING = (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM))
"""Sent by schedulers and containers, and by a terminal that is closed; Windows has no SIGHUP."""

INSTEAD: Mapping[tuple[str, str], str] = {
    ("transfer", "--steps"): "a transfer trains nothing; train its output with relexify train",
    ("train", "--epochs"): "give the number of --steps, each of --batch × --length tokens",
    ("train", "--device"): "a GPU is used if there is one; to hide it, write CUDA_VISIBLE_DEVICES= before the command",
    ("evaluate", "--corpus"): "give text to score on as --held-out",
    ("vectors train", "--epochs"): "write --set epochs=N",
}
"""Advice for options that a verb does not have, by verb and option: users expect them because other verbs do."""

_ENDS = ("min", "max")
"""Attributes of typer and click with the range of an option that takes a number."""


class _Verbs(VerbGroup):
    verbs: ClassVar[Mapping[str, Verb]] = {
        "transfer": Verb("transfer", "transfer"),
        "advise": Verb("transfer", "advise"),
        "estimate": Verb("transfer", "estimate"),
        "train": Verb("transfer", "train"),
        "evaluate": Verb("transfer", "evaluate"),
        "inspect": Verb("transfer", "inspect"),
        "check": Verb("transfer", "check"),
        "report": Verb("transfer", "report"),
        "push": Verb("transfer", "push"),
        "run": Verb("recipes", "recipes"),
        "compare": Verb("recipes", "recipes"),
        "grid": Verb("recipes", "grid"),
        "recipes": Verb("recipes", "recipes"),
        "options": Verb("recipes", "options"),
        "prune": Verb("systems", "prune"),
        "bilingual": Verb("systems", "bilingual"),
        "export": Verb("systems", "bilingual"),
        "trelm": Verb("systems", "trelm"),
        "compress": Verb("systems", "compress"),
        "expand": Verb("systems", "compress"),
        "align": Verb("evidence", "align"),
        "vectors": Verb("evidence", "vectors"),
        "demo": Verb("more", "demo"),
        "methods": Verb("more", "methods"),
        "geometry": Verb("more", "geometry"),
    }


app = typer.Typer(
    name="relexify",
    cls=_Verbs,
    help="Give a pretrained language model a new language: swap the lexicon, keep the grammar.\n\n"
    "Start with [bold]relexify demo[/], then [bold]relexify transfer --help[/].",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings=HELP_OPTIONS,
)


def _show_version(requested: bool) -> None:
    if requested:
        from relexify.version import __version__

        results.print(__version__, highlight=False)
        raise typer.Exit


@app.callback()
def options(
    context: typer.Context,
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback when something fails.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show warnings and results only.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as one json object.")] = False,
    processes: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=1024,
            show_default=False,
            help="Processes that read a large text or compute `omp`; default: one for each core, up to 16.",
        ),
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", is_eager=True, callback=_show_version)
    ] = False,
) -> None:
    """Options of every verb."""
    verb = context.command.commands[context.invoked_subcommand]  # type: ignore[attr-defined]
    members = getattr(verb, "commands", {"": verb}).values()
    names = frozenset(parameter.name for member in members for parameter in member.params)
    # `apply_settings` names the table of verbs that take the keys of one.
    console.option_names = OptionNames(names, table="" if {"recipe", "settings"} <= names else None)
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    if processes is not None:
        from relexify.processes import PROCESSES

        os.environ[PROCESSES] = str(processes)
    level = logging.INFO
    if debug:
        level = logging.DEBUG
    elif quiet:
        level = logging.WARNING
    log_to_console(level)
    if os.environ.get("RANK", "0") != "0":  # started by torchrun or accelerate: only the first process prints
        log_to_console(logging.ERROR)
        results.quiet = True
    else:
        results_as_json(as_json)


def main() -> None:
    """Run the command line; invalid input gives one error message and exit status 2."""
    debug = _move_to_front("--debug")
    for option in ("--quiet", "-q", "--json"):
        _move_to_front(option)
    _move_to_front("--processes", has_value=True)
    quieten_libraries()
    results_as_json(False)  # the help is printed before options are read, and a program may call this twice
    received: list[int] = []
    try:
        _check_arguments(sys.argv[1:])
        with _terminated_like_interrupted(received):
            status = app(standalone_mode=False)
        sys.stdout.flush()
    except KeyboardInterrupt:  # before the app can catch it, or after
        status = INTERRUPTED
    except BaseException as error:
        if not isinstance(error, Exception) and not is_panic(error):
            raise
        if debug:
            traceback.print_exc()
        message, status = _explain(error)
        sentence = shorten(" ".join(message.split()))
        console.print(f"[bold red]error:[/] {escape(sentence)}", highlight=False, soft_wrap=True)
        _drop_unwritten_results()
        sys.exit(status)
    if status == INTERRUPTED:
        status, word = (128 + received[0], "terminated") if received else (INTERRUPTED, "interrupted")
        with suppress(OSError):  # the terminal may be closed
            console.print(f"{word}: run the same command again to resume from what was saved", highlight=False)
    sys.exit(status)


@contextmanager
def _terminated_like_interrupted(received: list[int]) -> Iterator[None]:
    """Let some signals end the command as Ctrl-C does, so that temporary files are removed; append those received."""
    running = True

    def interrupt(number: int, _: FrameType | None) -> None:
        received.append(number)
        if running:
            raise KeyboardInterrupt

    handled = [number for number in TERMINATING if signal.getsignal(number) != signal.SIG_IGN]  # nohup ignores SIGHUP
    before = {number: signal.signal(number, interrupt) for number in handled}
    try:
        yield
    finally:
        running = False  # an exception in the next lines would leave a handler in place
        for number, handler in before.items():
            signal.signal(number, handler)


def _drop_unwritten_results() -> None:
    """Drop results that cannot be written, as on a full disk: Python would try again at its end, and report it."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _move_to_front(option: str, *, has_value: bool = False) -> bool:
    """Accept a global option anywhere on the command line, up to a lone `--`; its value follows it, or an `=`."""
    end = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    before, after = sys.argv[1:end], sys.argv[end:]
    moved: list[str] = []
    for position in reversed(range(len(before))):
        if before[position] != option and not (has_value and before[position].startswith(f"{option}=")):
            continue
        length = 2 if has_value and before[position] == option else 1
        moved[:0] = before[position : position + length]
        del before[position : position + length]
    sys.argv[1:] = [*(moved if has_value else moved[:1]), *before, *after]
    return bool(moved)


def _check_arguments(arguments: Sequence[str]) -> None:
    """Reject empty arguments: an empty path would be the current folder."""
    for argument in arguments:
        option, equals, value = argument.partition("=") if argument.startswith("--") else ("", "", argument)
        if not value.strip() and (equals or not option):
            shown = f"the value of {option}" if option else "an argument"
            raise InputError(f"{shown} is empty: give a value, or leave it out (is a shell variable not set?)")


def _explain(error: BaseException) -> tuple[str, int]:
    """Return the message for an error, and the exit status."""
    if isinstance(error, RelexifyError):
        return console.option_names.spell(str(error)), 2
    if isinstance(error, OSError):
        return f"{error.filename or 'the system'}: {error.strerror}" if error.strerror else str(error), 2
    if hasattr(error, "format_message"):  # a usage error, found by typer
        return _explain_usage(error), 2
    if isinstance(error, MemoryError) or "allocate memory" in str(error) or "out of memory" in str(error):  # by torch
        return "there is not enough memory: end other programs, or give a smaller model, batch or file", 1
    if is_panic(error):
        return f"the package tokenizers failed ({error}): the tokenizer is probably damaged; use another one", 1
    name = type(error).__name__
    return f"relexify failed unexpectedly ({name}: {error}): run it again with --debug and report the traceback", 1


# An exception of click, or of the copy of click that newer versions of typer contain.
def _explain_usage(error: Any) -> str:
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        sys.exit(2)
    context, message = getattr(error, "ctx", None), error.format_message().rstrip(".")
    if context is None:
        return str(message)
    if type(error).__name__ == "BadParameter" and (explained := _explain_number(error)):
        return explained
    if (name := getattr(error, "option_name", None)) and type(error).__name__ == "NoSuchOption":
        verb = context.command_path.removeprefix(context.find_root().command_path).strip()
        if instead := INSTEAD.get((verb, name)):
            return f"{name} is not an option of {context.command_path}: {instead}"
        if others := context.find_root().command.verbs_with_option(name):
            message = f"{name} is an option of {', '.join(others)}, but not of {context.command_path}"
    if type(error).__name__ == "MissingParameter" and error.param.param_type_name == "argument":
        message = f"{error.param.name.upper()} is missing"
    return f"{message}: see {context.command_path} --help"


def _explain_number(error: Any) -> str:
    """Return what is wrong with the number that an option was given; empty if it takes something else."""
    if errors := getattr(error.__cause__, "errors", None):  # of pydantic, with which newer versions of typer convert
        found = errors()[0]
        given, problem = str(found["input"]), found["type"]  # such as int_parsing or less_than_equal
    else:
        given, _, problem = error.message.partition(" is not ")  # followed by: a valid integer, in the range 1<=x<=9
    least, most = (getattr(error.param, end, getattr(getattr(error.param, "type", None), end, None)) for end in _ENDS)
    if problem.endswith("_equal") or "in the range" in problem:
        expected = f"{least} or more" if most is None else f"a number from {least} to {most}"
        if least is None:
            expected = f"{most} or less"
    elif problem.startswith("int_") or "valid integer" in problem:
        expected = "a whole number"
    elif problem.startswith("float_") or "valid float" in problem:
        expected = "a number"
    else:
        return ""
    option, shown = max(error.param.opts, key=len), given.strip("'")[:80]
    return f"{option} {shown} is not possible: give {expected}"
