"""What is printed controls no terminal, and streams that are closed, full or not in UTF-8 do not stop a command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from relexify.evidence.vectors import WordVectors
from tests.cli.command import assert_error, relexify

HOSTILE = "a\x1b[31mb\x07\x9b2J\u202ec"
SHOWN = "a\\x1b[31mb\\x07\\x9b2J\\u202ec"


@pytest.fixture
def vectors(tmp_path: Path) -> Path:
    rows = np.array([[1, 2], [1, 2.1], [1, 2.2]], np.float32)
    return WordVectors(["haus", "šora", HOSTILE], rows).save(tmp_path / "v.safetensors")


def in_shell(arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = f"{sys.executable} -m relexify {arguments}"
    environment = {**os.environ, **environment}
    return subprocess.run(command, shell=True, env=environment, capture_output=True, text=True, check=False)


def test_names_and_words_do_not_control_the_terminal(vectors: Path, tmp_path: Path) -> None:
    assert_error(relexify("vectors", "info", tmp_path / HOSTILE), SHOWN)
    shown = relexify("vectors", "nearest", vectors, "haus")
    assert SHOWN in shown.out
    assert not set("\x1b\x07\x9b\u202e").intersection(shown.out)
    as_json = relexify("--json", "vectors", "nearest", vectors, "haus")
    assert not set("\x1b\x07\x9b\u202e").intersection(as_json.out)
    assert repr(HOSTILE) in repr(json.loads(as_json.out))


def test_a_name_that_is_not_utf_8_is_shown_with_its_bytes_as_escapes(tmp_path: Path) -> None:
    assert_error(relexify("vectors", "info", tmp_path / os.fsdecode(b"a\xff")), "a\\udcff cannot be read")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_words_are_escaped_where_the_terminal_cannot_show_them(vectors: Path, encoding: str) -> None:
    nearest = f"vectors nearest {vectors} haus"
    shown = in_shell(nearest, PYTHONIOENCODING=encoding)
    assert shown.returncode == 0, shown.stderr
    assert ("šora" if encoding == "utf-8" else "\\u0161ora") in shown.stdout
    as_json = in_shell(f"--json {nearest}", PYTHONIOENCODING=encoding)
    assert as_json.returncode == 0, as_json.stderr
    assert "šora" in str(json.loads(as_json.stdout))


def test_words_are_escaped_in_the_locale_c(vectors: Path) -> None:
    c = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": ""}
    shown = in_shell(f"vectors nearest {vectors} haus", **c)
    assert shown.returncode == 0, shown.stderr
    assert "\\u0161ora" in shown.stdout


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_closed_stream_does_not_stop_a_command(vectors: Path, closed: str) -> None:
    for options in ("", "--json"):
        assert in_shell(f"{options} vectors nearest {vectors} haus {closed}").returncode == 0
    assert in_shell(f"vectors info nowhere.vec {closed}").returncode == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has it")
def test_messages_that_cannot_be_written_do_not_change_how_a_command_ends(vectors: Path) -> None:
    assert in_shell("vectors info nowhere.vec 2>/dev/full").returncode == 2
    unknown = in_shell(f"inspect {vectors} 2>/dev/full")
    assert (unknown.returncode, unknown.stdout) == (2, "")
    for unbuffered in ("", "1"):
        for command in ("methods", "--json methods", "--help", "--version"):
            lost = in_shell(f"{command} >/dev/full", PYTHONUNBUFFERED=unbuffered)
            assert lost.returncode == 2, lost.stderr
            assert len(lost.stderr.splitlines()) == 1
            assert "No space left" in lost.stderr
