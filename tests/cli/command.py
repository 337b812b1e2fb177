"""Run the command line, in this process, in one of its own, or in one that has imported everything and is killed."""

from __future__ import annotations

import io
import logging
import os
import signal
import subprocess
import sys
import time
import warnings
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from relexify.cli.app import main
from tests.processes import start_process


@dataclass(frozen=True)
class Outcome:
    """Exit status and output of a command."""

    status: int
    out: str
    err: str


def relexify(*arguments: object) -> Outcome:
    """Run a command in this process, and leave the process as it was."""
    out, err = io.StringIO(), io.StringIO()
    logger, argv = logging.getLogger("relexify"), sys.argv
    before = logger.handlers, logger.level, logger.propagate
    sys.argv = ["relexify", *map(str, arguments)]
    status = 0
    try:
        with redirect_stdout(out), redirect_stderr(err), warnings.catch_warnings():
            main()
    except SystemExit as leaving:
        status = int(leaving.code or 0)
    finally:
        sys.argv = argv
        logger.handlers, logger.level, logger.propagate = before
    return Outcome(status, out.getvalue(), err.getvalue())


def start(*arguments: object, cache: Path) -> subprocess.Popen[str]:
    """Start a command in a process of its own."""
    command = [sys.executable, "-m", "relexify", *map(str, arguments)]
    environment = {**os.environ, "RELEXIFY_CACHE": str(cache), "COLUMNS": "200"}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def run_until_killed(*arguments: object, cache: Path, when: Path) -> None:
    """Run a command in a process that is killed once a file exists.

    Args:
        arguments: The command.
        cache: The folder of the cache.
        when: The file; a glob pattern.
    """
    process = start_process({"RELEXIFY_CACHE": str(cache)}, _run_to_the_end, arguments)
    _wait_for(when, process)
    process.kill()
    process.join()
    assert process.exitcode == -signal.SIGKILL


def run_until_signalled(*arguments: object, cache: Path, when: str, number: signal.Signals) -> Outcome:
    """Run a command in a process that gets a signal once a file exists.

    Args:
        arguments: The command.
        cache: The folder of the cache.
        when: The file; a glob pattern below the cache.
        number: The signal, with its default disposition.
    """
    printed = cache.with_name(f"{cache.name}-printed")
    process = start_process({"RELEXIFY_CACHE": str(cache)}, _print_to_files, arguments, printed, number)
    _wait_for(cache / when, process)
    os.kill(process.pid, number)
    process.join(60)
    return Outcome(process.exitcode, *(printed.with_suffix(suffix).read_text() for suffix in (".out", ".err")))


def _print_to_files(arguments: tuple[object, ...], printed: Path, number: signal.Signals) -> None:
    """Run the command line as a process of its own would; a shell's background jobs, and nohup, ignore signals."""
    signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    for stream, suffix in ((sys.stdout, ".out"), (sys.stderr, ".err")):
        os.dup2(os.open(printed.with_suffix(suffix), os.O_WRONLY | os.O_CREAT), stream.fileno())
    sys.argv = ["relexify", *map(str, arguments)]
    main()


def _wait_for(file: Path, process: ForkServerProcess) -> None:
    deadline = time.monotonic() + 300
    while not list(Path(file.anchor).glob(str(file.relative_to(file.anchor)))):
        assert process.is_alive(), f"the command ended with {process.exitcode} before there was a {file}"
        assert time.monotonic() < deadline, f"no {file} after five minutes"
        time.sleep(0.005)


def _run_to_the_end(arguments: tuple[object, ...]) -> None:
    outcome = relexify(*arguments)
    assert outcome.status == 0, outcome.err


def assert_error(outcome: Outcome, *words: str) -> None:
    """Assert that a command ended with a one-line error that contains the words, and printed nothing else."""
    assert outcome.status == 2, outcome
    assert not outcome.out
    messages = [line for line in outcome.err.splitlines() if not line.startswith("· ")]
    assert len(messages) == 1, outcome.err
    assert messages[0].startswith("error: ")
    assert "Traceback" not in outcome.err
    missing = [word for word in words if word not in messages[0]]
    assert not missing, f"{missing} not in {messages[0]}"
