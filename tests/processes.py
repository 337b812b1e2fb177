"""Functions in processes of their own, which have imported torch already, because they fork from one that has."""

from __future__ import annotations

import gc
import multiprocessing
import os
import socket
from collections.abc import Callable
from multiprocessing.connection import wait
from multiprocessing.context import ForkServerProcess
from typing import Any

import pytest
import torch

from relexify import processes

_children = multiprocessing.get_context("forkserver")
_children.set_forkserver_preload(["relexify.training.run", "relexify.systems.transfer.recipe", "tests.training.runs"])


def start_process(environment: dict[str, str], target: Callable[..., None], *arguments: Any) -> ForkServerProcess:
    """Start a function in a process of its own."""
    process = _children.Process(target=_in_child, args=(environment, target, *arguments))
    process.start()
    return process


def in_a_process(target: Callable[..., None], *arguments: Any) -> int | None:
    """The exit code of a function in a process of its own."""
    return in_processes([{}], target, *arguments)


def in_two_processes(target: Callable[..., None], *arguments: Any, **environment: str) -> int | None:
    """As a launcher would have it: where one of the two dies, the other is ended too."""
    return in_launched_processes(2, target, *arguments, **environment)


def in_launched_processes(number: int, target: Callable[..., None], *arguments: Any, **environment: str) -> int | None:
    """As `in_two_processes`, for any number of them."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    size = {"WORLD_SIZE": str(number), "LOCAL_WORLD_SIZE": str(number)}
    common = {"MASTER_ADDR": "localhost", "MASTER_PORT": str(port), **size, **environment}
    ranks = [{**common, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(number)]
    return in_processes(ranks, target, *arguments)


def in_processes(environments: list[dict[str, str]], target: Callable[..., None], *arguments: Any) -> int | None:
    """The exit code of the first that fails; None where they do not end."""
    processes = [start_process(each, target, *arguments) for each in environments]
    left, code = list(processes), 0
    while left and not code and (ended := wait([process.sentinel for process in left], timeout=100)):
        for process in [process for process in left if process.sentinel in ended]:
            process.join()
            left.remove(process)
            code = code or process.exitcode
    for process in left:
        process.kill()
        process.join()
    return None if left and not code else code


def _in_child(environment: dict[str, str], target: Callable[..., None], *arguments: Any) -> None:
    gc.freeze()  # what was imported is no garbage, and looking for garbage in it would copy its memory
    os.fsync = lambda handle: None  # as in the tests themselves
    os.environ.update(environment)
    torch.set_num_threads(1)
    target(*arguments)


def count_started(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let `map_in_order` start processes after one batch, and return a list that grows with each of them."""
    started: list[int] = []

    class Counted(processes._Worker[Any, Any]):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            started.append(self._process.pid)

    monkeypatch.setattr(processes, "_COMPUTED_HERE", 1)
    monkeypatch.setattr(processes, "_Worker", Counted)
    return started
