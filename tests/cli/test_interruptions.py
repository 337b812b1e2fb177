"""Runs that are killed, interrupted, or meet a full disk leave a whole output, the previous or the next one."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import signal
import subprocess
import sys

import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer

from relexify import cli as relexify_cli
from relexify.cli import app
from tests.cli.command import assert_error, relexify, run_until_killed, run_until_signalled, start
from tests.cli.conftest import SIZE


@pytest.fixture
def long_text(world, tmp_path):
    """Text that vectors are trained on for a second, so that there is time to interfere."""
    file = tmp_path / "long.txt"
    file.write_text(world.corpus.read_text() * 5)
    return file


@pytest.fixture
def small_disk(tmp_path):
    """A file system of one megabyte."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], check=False, capture_output=True
    )
    if mounted.returncode:
        pytest.skip("mounting a file system needs root")
    yield folder
    subprocess.run(["umount", folder], check=True)


TOKENIZER = "tokenizer/[0-9a-f]*/tokenizer.json"
"""In the cache, the first result of a transfer."""


def test_a_transfer_that_was_killed_before_its_report_was_written_gets_it_when_repeated(world, tmp_path):
    text, output = tmp_path / "text.txt", tmp_path / "out"
    shutil.copy(world.corpus, text)
    command = ("transfer", world.gpt2, output, "--corpus", text, "--vocab-size", SIZE, "--method", "fvt")
    first = relexify(*command)
    assert first.status == 0, first.err
    report, weights = output / "report.html", output / "model.safetensors"
    written = weights.stat().st_mtime_ns
    report.unlink()
    again = relexify(*command)
    assert "up to date" in again.err
    assert again.out == first.out
    assert report.is_file()
    assert weights.stat().st_mtime_ns == written
    assert_error(relexify(*command, "--seed", 1), "exists already")
    text.write_text(text.read_text() + "another line\n")
    assert_error(relexify(*command), "other inputs (changed: corpus", "--overwrite")


def test_killed_run_leaves_no_output_and_the_next_one_resumes(world, long_text, tmp_path, cache):
    folder = tmp_path / "outputs"
    command = ("transfer", world.gpt2, folder / "out", "--corpus", long_text, "--vocab-size", SIZE)
    options = ("--source-corpus", world.source_corpus, "--dictionary", world.dictionary)
    run_until_killed(*command, *options, cache=cache, when=cache / TOKENIZER)
    assert not (folder / "out").exists()
    assert not folder.exists() or all(path.name.startswith(".") for path in folder.iterdir())
    again = relexify(*command, *options)
    assert again.status == 0, again.err
    assert re.search("using the cached tokenizer", again.err)
    AutoModelForCausalLM.from_pretrained(folder / "out")
    AutoTokenizer.from_pretrained(folder / "out")


def test_interrupted_run_stops_at_once_and_says_how_to_resume(world, long_text, tmp_path, cache):
    command = ("transfer", world.gpt2, tmp_path / "out", "--corpus", long_text, "--vocab-size", SIZE)
    corpora = ("--source-corpus", long_text)
    outcome = run_until_signalled(*command, *corpora, cache=cache, when=TOKENIZER, number=signal.SIGINT)
    assert outcome.status == 130
    assert "run the same command again to resume" in outcome.err
    assert "Traceback" not in outcome.err
    assert not outcome.out
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_terminated_run_ends_like_an_interrupted_one(world, long_text, tmp_path, cache, number):
    command = ("transfer", world.gpt2, tmp_path / "out", "--corpus", long_text, "--vocab-size", SIZE)
    corpora = ("--source-corpus", long_text)
    outcome = run_until_signalled(*command, *corpora, cache=cache, when=TOKENIZER, number=number)
    assert outcome.status == 128 + number
    assert "terminated: run the same command again to resume from what was saved" in outcome.err
    assert "Traceback" not in outcome.err
    assert not list(tmp_path.glob(".out*"))
    assert not list(cache.glob("*/.*")), "temporary files are left"


def test_an_interruption_while_modules_are_imported_prints_no_traceback():
    code = (
        "import builtins, relexify.cli\n"
        "real = builtins.__import__\n"
        "def interrupted(name, *rest):\n"
        "    if name == 'typer':\n"
        "        raise KeyboardInterrupt\n"
        "    return real(name, *rest)\n"
        "builtins.__import__ = interrupted\n"
        "relexify.cli.main()\n"
    )
    process = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert (process.returncode, process.stderr) == (130, "interrupted\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_in_generated_code_gives_its_status(number, tmp_path):
    """After such an interruption, `python -m` ends with SIGINT by itself."""
    (tmp_path / "interrupted.py").write_text(
        "import builtins, os, signal, relexify.cli\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "real = builtins.__import__\n"
        "def interrupted(name, *rest):\n"
        "    if name == 'relexify.version':\n"
        f"        exec('os.kill(os.getpid(), {int(number)})')\n"
        "    return real(name, *rest)\n"
        "builtins.__import__ = interrupted\n"
        "relexify.cli.main()\n"
    )
    command = [sys.executable, "-m", "interrupted", "--version"]
    process = subprocess.run(command, check=False, capture_output=True, text=True, cwd=tmp_path)
    assert process.returncode == 128 + number
    assert "run the same command again to resume" in process.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_at_any_line_ends_the_command_with_its_status(number, monkeypatch):
    """Every line that `app.py` runs; before its handlers are in place, SIGTERM has its default disposition."""
    monkeypatch.setattr(sys, "argv", ["relexify", "--version"])
    statuses = []
    for line in itertools.count(1):
        before = signal.signal(number, signal.default_int_handler if number == signal.SIGINT else _exit)
        try:
            status, is_signalled = _signalled_at(line, number)
        finally:
            signal.signal(number, before)
        if not is_signalled:
            break
        statuses.append(status)
    assert len(statuses) > 50
    assert set(statuses) <= {0, 128 + number}
    assert 128 + number in statuses


def _signalled_at(line: int, number: signal.Signals) -> tuple[int | str, bool]:
    """Send a signal when the command runs its nth line of `app.py`; return its status, and whether it had as many."""
    lines = 0

    def trace(frame, event, _):
        nonlocal lines
        if frame.f_code.co_filename != app.__file__:
            return None
        lines += event == "line"
        if event == "line" and lines == line:
            os.kill(os.getpid(), number)
        return trace

    sys.settrace(trace)
    try:
        relexify_cli.main()
    except SystemExit as leaving:
        return leaving.code or 0, lines >= line
    except KeyboardInterrupt as error:
        return f"a traceback, from line {error.__traceback__.tb_next.tb_lineno}", True
    finally:
        sys.settrace(None)
    return 0, lines >= line


def _exit(number, _):
    sys.exit(128 + number)


def test_the_command_leaves_garbage_collection_as_it_is():
    """Garbage may hold the memory of a GPU."""
    code = (
        "import gc, relexify.cli\n"
        "before = gc.get_threshold()\n"
        "try:\n"
        "    relexify.cli.main()\n"
        "finally:\n"
        "    assert gc.get_threshold() == before\n"
    )
    subprocess.run([sys.executable, "-c", code, "--version"], check=True, capture_output=True)


def test_full_disk_is_reported_and_nothing_is_left_on_it(world, small_disk):
    (small_disk / "ballast").write_bytes(b"x" * 900_000)
    command = ("transfer", world.gpt2, small_disk / "out", *world.text, "--method", "fvt", "--set", "score=false")
    outcome = relexify(*command)
    assert outcome.status == 2
    assert [path.name for path in small_disk.iterdir()] == ["ballast"]
    (message,) = outcome.err.splitlines()
    assert str(small_disk / "out") in message
    assert "free: free some space, or choose another output" in message
    (small_disk / "ballast").unlink()
    assert relexify(*command).status == 0


def test_full_cache_is_reported_and_does_not_stop_a_run(world, small_disk, tmp_path, monkeypatch):
    monkeypatch.setenv("RELEXIFY_CACHE", str(small_disk))
    (small_disk / "ballast").write_bytes(b"x" * 1_040_000)
    outcome = relexify("transfer", world.gpt2, tmp_path / "out", *world.text, "--method", "fvt", "--set", "score=false")
    assert outcome.status == 0, outcome.err
    assert str(small_disk) in outcome.err
    assert "No space left" in outcome.err
    AutoModelForCausalLM.from_pretrained(tmp_path / "out")


def test_a_process_of_its_own_prints_results_and_nothing_of_the_libraries(world, tmp_path, cache):
    options = (*world.text, *world.vectors)
    process = start("transfer", world.gpt2, tmp_path / "out", *options, cache=cache)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert "bits per byte" in out
    assert not [line for line in err.splitlines() if not line.startswith("· ")], err


def test_an_error_is_the_exit_status_of_the_process(tmp_path, cache):
    process = start("vectors", "info", tmp_path / "nowhere.bin", cache=cache)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert err.startswith("error: ")
    assert not out


def test_help_does_not_wait_for_torch():
    code = "import sys, relexify.cli.app; sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_closed_pipe_ends_quietly(cache):
    command = f"{sys.executable} -m relexify methods | head -1"
    shell = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert "Traceback" not in shell.stderr
    assert "error" not in shell.stderr
