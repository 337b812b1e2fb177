"""`--processes` is accepted anywhere on a command line."""

from __future__ import annotations

import os

import pytest

from relexify.processes import PROCESSES
from tests.cli.command import relexify


@pytest.mark.parametrize(
    "arguments", [["methods", "--processes", 3], ["--processes=3", "methods"], ["methods", "--processes=3"]]
)
def test_the_number_of_processes_may_be_given_anywhere(
    arguments: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PROCESSES, "")
    assert relexify(*arguments).status == 0
    assert os.environ[PROCESSES] == "3"


@pytest.mark.parametrize("given", [["--processes", 0], ["--processes"], ["--processes", "many"]])
def test_impossible_numbers_are_rejected(given: list[object]) -> None:
    ended = relexify("methods", *given)
    assert ended.status == 2
    assert "--processes" in ended.err
