"""Distribute work on a large text or matrix over processes of this machine, and find out which hosts work together.

    for counts in map_in_order(count_words, batches_of_lines):
        ...

The function computes each batch independently, and the results come in the order of the batches, so they are the same
with any number of processes. The first batches are computed in this process; other processes are started only if the
work takes longer than starting them. They are plain `python` processes: torch and CUDA do not survive a fork, and
`multiprocessing` without a fork would run the user's script again. If a process dies, this process computes its batch,
so the run only takes longer.

Tokenizing uses all cores even in one process, because `tokenizers` has threads; other Python code uses one core.
Threads are no alternative: threads that call numpy often, for short times, mostly wait for the interpreter lock.

The function is copied to every process. A large matrix in it should be a `SharedArray`, which is in memory only once.
"""

from __future__ import annotations

import logging
import os
import pickle
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, islice
from multiprocessing.connection import wait
from typing import IO, Any, Generic, TypeVar

import numpy as np

from relexify.errors import InputError, check_number
from relexify.progress import ONCE

__all__ = ["PROCESSES", "Launch", "SharedArray", "launch", "map_in_order", "process_count", "serve"]

PROCESSES = "RELEXIFY_PROCESSES"
"""The environment variable with the number of processes, which `relexify --processes` sets."""
_COMPUTED_HERE = 16
"""Number of batches computed before other processes are started: some seconds of work if a batch is 1 MB of text."""
_MOST_BY_DEFAULT = 16
"""Default maximum. More processes cost memory and gain little: one process reads the text and adds up the results."""
_MOST = 1024

Item = TypeVar("Item")
Result = TypeVar("Result")

logger = logging.getLogger(__name__)


def process_count() -> int:
    """Return the number of processes for large work: `$RELEXIFY_PROCESSES`, by default one per core, at most 16.

    Raises:
        InputError: The value of the variable is not a whole number, or is out of range.
    """
    given = os.environ.get(PROCESSES, "").strip()
    if not given:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        together = os.environ.get("LOCAL_WORLD_SIZE", "")  # processes that torchrun started here, which share the cores
        sharing = int(together) if together.isdecimal() else 1
        return max(1, min(cores // max(1, sharing), _MOST_BY_DEFAULT))
    try:
        count = int(given)
    except ValueError as error:
        raise InputError(f"{PROCESSES} is not a whole number: give a number from 1 to {_MOST}") from error
    check_number(PROCESSES, count, 1, _MOST)
    return count


@dataclass(frozen=True)
class Launch:
    """Processes that torchrun or a scheduler started together.

    Attributes:
        rank: The number of this process.
        ranks: The number of processes.
        local_rank: The number of this process among those of its host.
        local_ranks: The number of processes on every host.
    """

    rank: int
    ranks: int
    local_rank: int
    local_ranks: int

    @property
    def host(self) -> int:
        """The number of this host."""
        return self.rank // self.local_ranks

    @property
    def hosts(self) -> int:
        """The number of hosts."""
        return max(1, self.ranks // self.local_ranks)


def launch() -> Launch:
    """Return the processes that torchrun describes in environment variables; without them, only this process.

    This needs neither torch nor a network, so users can start the processes themselves, one on each host, with `RANK`
    and `WORLD_SIZE`.
    """
    names = "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"
    given = [os.environ.get(name, "") for name in names]
    rank, ranks, local_rank, local_ranks = (int(value) if value.isdecimal() else 0 for value in given)
    return Launch(rank, ranks, local_rank, max(1, local_ranks)) if rank < ranks else Launch(0, 1, 0, 1)


def map_in_order(function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """Yield the results of a function for all items, in their order, computed in several processes if there are many.

    At most two items per process are in memory at a time.

    Args:
        function: A function of its argument alone. Other processes get a pickled copy; a function that cannot be
            pickled runs only in this process.
        items: Read in this process while the other processes compute.
    """
    remaining = iter(items)
    yield from map(function, islice(remaining, _COMPUTED_HERE))
    processes = process_count() if os.name == "posix" else 1
    following = list(islice(remaining, 1))
    remaining = chain(following, remaining)
    copy = _pickled(function) if following and processes > 1 else None  # start no process if no item remains
    if copy is None:
        yield from map(function, remaining)
    else:
        yield from _distribute(function, copy, remaining, processes)


def _pickled(function: Callable[..., Any]) -> bytes | None:
    """Return a copy of a function for other processes; None if it cannot be pickled."""
    try:
        return pickle.dumps(function)
    except Exception as error:  # any type, because objects in the function define how they are pickled
        logger.debug("only this process computes, because a function cannot be pickled (%s)", error)
        return None


class SharedArray:
    """An array that other processes of this machine read in place: pickling it writes only a reference.

    Attributes:
        values: The array, zeros at first. The process that created it must write the values before it pickles the
            array, and keep the array until the other processes have opened it.
    """

    def __init__(self, shape: tuple[int, ...], dtype: type[np.generic]) -> None:
        try:  # on Linux: a file in memory, which is freed even if this process is killed
            file: IO[bytes] = os.fdopen(os.memfd_create("relexify"), "w+b")
            path = f"/proc/{os.getpid()}/fd/{file.fileno()}"
        except (AttributeError, OSError):  # another system, or a container that forbids it
            file = tempfile.NamedTemporaryFile(prefix="relexify-")  # noqa: SIM115 - closed with this object
            path = file.name
        weakref.finalize(self, file.close)
        # A plain array: indexing a memmap takes several times as long.
        self.values = np.asarray(np.memmap(file, dtype, "w+", shape=shape))
        self._reference = path, shape, dtype

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return _OpenedArray, self._reference


class _OpenedArray(SharedArray):
    """A `SharedArray` of another process."""

    def __init__(self, path: str, shape: tuple[int, ...], dtype: type[np.generic]) -> None:
        self.values = np.asarray(np.memmap(path, dtype, "r", shape=shape))
        self._reference = path, shape, dtype


def _distribute(
    function: Callable[[Item], Result], copy: bytes, items: Iterable[Item], processes: int
) -> Iterator[Result]:
    """Compute items in other processes, one item per process at a time."""
    workers: list[_Worker[Item, Result]] = []
    finished: dict[int, Result] = {}
    yielded = 0
    try:
        _start(workers, function, processes)
        for worker in workers:  # in a second loop, so that all workers start at the same time
            worker.send(copy)
        for number, item in enumerate(items):
            while workers and (all(worker.task for worker in workers) or number - yielded >= 2 * processes):
                _collect(workers, finished)
                while yielded in finished:
                    yield finished.pop(yielded)
                    yielded += 1
            if free := next((worker for worker in workers if not worker.task), None):
                free.start(number, item)
            else:  # no process is left
                yield from (finished.pop(earlier) for earlier in sorted(finished))
                yield function(item)
                yielded = number + 1
        while any(worker.task for worker in workers):
            _collect(workers, finished)
        yield from (finished.pop(number) for number in sorted(finished))
    finally:
        for worker in workers:
            worker.end()


def _start(workers: list[_Worker[Item, Result]], function: Callable[[Item], Result], count: int) -> None:
    """Start processes, as many as the machine allows."""
    for _ in range(count):
        try:
            workers.append(_Worker(function))
        except OSError as error:  # for example, a limit on the number of processes
            logger.warning("only %d of %d processes can be started (%s)", len(workers), count, error)
            return


def _collect(workers: list[_Worker[Item, Result]], finished: dict[int, Result]) -> None:
    """Wait until a process has a result, and take all results that are ready; remove processes that died."""
    ready = wait([worker.results.fileno() for worker in workers if worker.task])
    for worker in workers[:]:
        if worker.task and worker.results.fileno() in ready:
            number, result = worker.finish()
            finished[number] = result
            if worker.is_dead:
                workers.remove(worker)
                worker.end()


class _Worker(Generic[Item, Result]):
    """A process that computes one item at a time.

    Attributes:
        task: The number and the item that it computes now; None if it is idle.
        results: The pipe with its results; the pipe is also ready to read if the process died.
        is_dead: Whether it ended before its work was finished.
    """

    def __init__(self, function: Callable[[Item], Result]) -> None:
        # With the same search path as this process, it imports the same modules, not files in its current folder.
        code = f"import sys; sys.path[:] = {sys.path!r}; from relexify.processes import serve; serve()"
        self._process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1"},
            start_new_session=True,  # Ctrl-C reaches only this process; the worker ends when its pipe is closed
        )
        self._function = function
        self.task: tuple[int, Item] | None = None
        self.results: IO[bytes] = self._process.stdout  # type: ignore[assignment]
        self.is_dead = False

    def start(self, number: int, item: Item) -> None:
        """Give it an item."""
        self.task = number, item
        self.send(pickle.dumps(item, pickle.HIGHEST_PROTOCOL))

    def finish(self) -> tuple[int, Result]:
        """Return the number of its item and the result; if the process failed, compute the result here."""
        number, item = self.task  # type: ignore[misc]
        self.task = None
        try:
            return number, pickle.load(self.results)
        except (EOFError, OSError, pickle.UnpicklingError):
            # It was killed, for example because memory was short, or the function raised an error, which it will raise
            # here too.
            logger.warning("a worker process ended unexpectedly; the main process does its work", extra=ONCE)
            self.is_dead = True
            return number, self._function(item)

    def end(self) -> None:
        """End the process, even while it computes."""
        self._process.kill()
        self._process.communicate()  # closes its pipes

    def send(self, content: bytes) -> None:
        """Write to its pipe: first the function, then one item at a time."""
        with suppress(OSError):  # the process died; `finish` will notice
            self._process.stdin.write(content)  # type: ignore[union-attr]
            self._process.stdin.flush()  # type: ignore[union-attr]


def serve() -> None:
    """Receive a function from another process, then its arguments one by one, and send back each result."""
    arguments, results = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # redirect stdout to stderr, so that printed text is not read as a result
    function: Callable[[Any], Any] = pickle.load(arguments)
    while True:
        try:
            argument = pickle.load(arguments)
        except EOFError:
            return
        pickle.dump(function(argument), results, pickle.HIGHEST_PROTOCOL)
        results.flush()
