"""Work that is distributed over processes gives what one process gives, whatever happens to them."""

from __future__ import annotations

import gc
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from relexify import processes
from relexify.errors import InputError
from relexify.processes import SharedArray, map_in_order, process_count
from tests.processes import count_started

PARENT = "RELEXIFY_TEST_PARENT"


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The ids of two processes, once they are started."""
    monkeypatch.setenv(processes.PROCESSES, "2")
    monkeypatch.setenv(PARENT, str(os.getpid()))
    return count_started(monkeypatch)


def in_parent() -> bool:
    return os.environ[PARENT] == str(os.getpid())


def slow_if_even(number: int) -> tuple[int, bool]:
    time.sleep(0.05 * (number % 2 == 0))
    return number * number, in_parent()


def dies_at_five(number: int) -> int:
    if number == 5 and not in_parent():
        os.kill(os.getpid(), signal.SIGKILL)
    return number * number


def dies_from_five_on(number: int) -> int:
    if number >= 5 and not in_parent():
        os.kill(os.getpid(), signal.SIGKILL)
    return number * number


def fails_at_five(number: int) -> int:
    sys.stdout.write("what a package prints\n")
    if number == 5:
        raise InputError("five is not possible")
    return number


def test_results_come_in_order_from_other_processes(started: list[int]) -> None:
    found = list(map_in_order(slow_if_even, range(12)))
    assert [square for square, _ in found] == [number * number for number in range(12)]
    assert [here for _, here in found] == [True] + [False] * 11
    assert len(started) == 2


def test_little_work_starts_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(processes.PROCESSES, "2")
    monkeypatch.setattr(processes, "_Worker", None)  # nothing may be started
    assert list(map_in_order(str, range(processes._COMPUTED_HERE))) == list(map(str, range(processes._COMPUTED_HERE)))


def test_a_killed_process_costs_no_result(started: list[int], caplog: pytest.LogCaptureFixture) -> None:
    assert list(map_in_order(dies_at_five, range(12))) == [number * number for number in range(12)]
    assert "a worker process ended unexpectedly" in caplog.text


def test_items_are_computed_here_once_all_processes_are_killed(started: list[int]) -> None:
    assert list(map_in_order(dies_from_five_on, range(30))) == [number * number for number in range(30)]


@pytest.mark.parametrize("possible", [0, 1])
def test_processes_that_cannot_be_started_cost_no_result(
    monkeypatch: pytest.MonkeyPatch, started: list[int], caplog: pytest.LogCaptureFixture, possible: int
) -> None:
    start = subprocess.Popen

    def limited(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
        if len(started) >= possible:
            raise BlockingIOError("Resource temporarily unavailable")
        return start(*arguments, **options)

    monkeypatch.setattr(processes.subprocess, "Popen", limited)
    assert list(map_in_order(abs, range(12))) == list(range(12))
    assert f"only {possible} of 2 processes can be started" in caplog.text
    assert len(started) == possible


def test_an_error_is_raised_as_in_one_process_and_leaves_no_process(started: list[int]) -> None:
    with pytest.raises(InputError, match="five is not possible"):
        list(map_in_order(fails_at_five, range(12)))
    for process in started:
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)


def test_items_are_not_read_far_ahead(started: list[int]) -> None:
    read: list[int] = []

    def items() -> Iterator[int]:
        for number in range(40):
            read.append(number)
            yield number

    for yielded, _ in enumerate(map_in_order(abs, items())):
        assert len(read) - yielded <= 2 * 2 + 2


def test_a_function_that_cannot_be_pickled_runs_in_this_process(started: list[int]) -> None:
    assert list(map_in_order(lambda number: number + 1, range(5))) == [1, 2, 3, 4, 5]
    assert not started


def test_a_script_without_a_main_block_is_not_run_again(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "from relexify import processes\nprint('once')\nprocesses._COMPUTED_HERE = 1\n"
        "print(list(processes.map_in_order(abs, range(4))))\n"
    )
    environment = {**os.environ, processes.PROCESSES: "2", "PYTHONPATH": str(Path(__file__).parents[1])}
    done = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "once\n[0, 1, 2, 3]\n"


class RowSum:
    def __init__(self, matrix: SharedArray) -> None:
        self.matrix = matrix

    def __call__(self, row: int) -> tuple[float, bool]:
        return float(self.matrix.values[row].sum()), in_parent()


@pytest.mark.parametrize("in_memory", [True, False])
def test_a_shared_array_is_read_in_place_by_other_processes(
    monkeypatch: pytest.MonkeyPatch, started: list[int], in_memory: bool
) -> None:
    if not in_memory:
        monkeypatch.delattr(os, "memfd_create", raising=False)
    matrix = SharedArray((50, 1_000), np.float32)
    matrix.values[:] = np.arange(50)[:, None]
    assert len(pickle.dumps(matrix)) < 1_000
    found = list(map_in_order(RowSum(matrix), range(50)))
    assert found == [(1_000.0 * row, row == 0) for row in range(50)]


@pytest.mark.parametrize("in_memory", [True, False])
def test_a_shared_array_that_its_owner_dropped_stays_only_where_it_is_open(
    monkeypatch: pytest.MonkeyPatch, in_memory: bool
) -> None:
    if not in_memory:
        monkeypatch.delattr(os, "memfd_create", raising=False)
    matrix = SharedArray((3,), np.int64)
    matrix.values[:] = 7
    reference = pickle.dumps(matrix)
    opened = pickle.loads(reference)
    del matrix
    gc.collect()
    assert opened.values.tolist() == [7, 7, 7]
    with pytest.raises(FileNotFoundError):
        pickle.loads(reference)


def test_processes_of_one_launcher_share_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(processes.PROCESSES, raising=False)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "1000")
    assert process_count() == 1
    monkeypatch.delenv("LOCAL_WORLD_SIZE")
    alone = process_count()
    for impossible in ("0", "x", "-1"):
        monkeypatch.setenv("LOCAL_WORLD_SIZE", impossible)
        assert process_count() == alone


@pytest.mark.parametrize("given", ["0", "-1", "many", "1e3", "9" * 5000])
def test_impossible_numbers_of_processes_are_rejected(monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    monkeypatch.setenv(processes.PROCESSES, given)
    with pytest.raises(InputError, match="RELEXIFY_PROCESSES"):
        process_count()
