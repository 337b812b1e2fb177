"""Progress reports of long work.

Long work opens a task, and counts what is done:

    with track("training vectors", total=epochs) as advance:
        for _ in range(epochs):
            ...
            advance(1)

A second argument of `advance` says how the work goes, such as the loss of a training.

Tasks are shown by the current reporter. By default nothing is shown; the command line sets a reporter with
`report_to`. The reporter is a context variable: a new thread starts without one, and must be run in a copy of the
context (`contextvars.copy_context().run`) if it opens tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Protocol

__all__ = [
    "ONCE",
    "Advance",
    "Progress",
    "count_of",
    "describe_estimate",
    "format_duration",
    "report_to",
    "report_under",
    "runs_follow",
    "track",
]


ONCE: Mapping[str, object] = MappingProxyType({"once": True})
"""`extra` of a log message that a command shows once, such as about the text: all runs of a comparison repeat it."""


class Advance(Protocol):
    """Adds a number of finished units to a task, and replaces its status if one is given."""

    def __call__(self, amount: int, status: str = "", /) -> None:
        """Report progress."""


Progress = Callable[[str, int | None], AbstractContextManager[Advance]]
"""A reporter: opens a task with a description and a total (`None` if unknown)."""


@contextmanager
def _silent(description: str, total: int | None = None) -> Iterator[Advance]:
    """A reporter that shows nothing."""
    yield lambda amount, status="": None


_reporter: ContextVar[Progress] = ContextVar("reporter", default=_silent)
_following_runs: ContextVar[int] = ContextVar("following runs", default=0)


def track(description: str, total: int | None = None) -> AbstractContextManager[Advance]:
    """Open a task in the current reporter.

    Args:
        description: What is being done.
        total: Units of work; `None` if unknown.

    Returns:
        A context manager for the duration of the task. It gives a function to call with the number of units done.
    """
    return _reporter.get()(description, total)


@contextmanager
def report_to(reporter: Progress) -> Iterator[None]:
    """Use a reporter for all tasks opened inside the `with` block."""
    token = _reporter.set(reporter)
    try:
        yield
    finally:
        _reporter.reset(token)


@contextmanager
def report_under(name: str) -> Iterator[None]:
    """Append a name to the description of all tasks opened inside the `with` block."""
    outer = _reporter.get()
    with report_to(lambda description, total: outer(f"{description}: {name}", total)):
        yield


@contextmanager
def runs_follow(count: int) -> Iterator[None]:
    """Let `describe_estimate` know that this many runs like the work inside the `with` block follow it."""
    token = _following_runs.set(count)
    try:
        yield
    finally:
        _following_runs.reset(token)


def describe_estimate(seconds: float) -> str:
    """Return how long work will take, for a log: of this run, and of those that follow it."""
    text = f"about {format_duration(seconds)}"
    if runs := _following_runs.get():
        text += f", and {format_duration(runs * seconds)} for the {count_of(runs, 'run')} after this one"
    return text


def count_of(number: int, one: str, several: str = "") -> str:
    """Return a number with what it counts, and a verb if that agrees with it: `1 word`, `1,204 words`, `2 lines are`.

    Args:
        number: How many there are.
        one: The words that follow 1.
        several: Those that follow any other number; by default with an s at the end.
    """
    return f"{number:,} {one if number == 1 else several or f'{one}s'}"


def format_duration(seconds: float) -> str:
    """Return a duration in its two largest units: `40 s`, `3 min 20 s`, `5 h 10 min`, `5 days 3 h`."""
    if round(seconds) < 60:
        return f"{round(seconds)} s"
    # Rounded before it is compared with the next unit: 59 min 59.9 s is 1 h.
    if (whole := round(seconds)) < 3_600:
        (many, rest), name, smaller = divmod(whole, 60), "min", "s"
    elif (whole := round(seconds / 60)) < 24 * 60:
        (many, rest), name, smaller = divmod(whole, 60), "h", "min"
    else:
        many, rest = divmod(round(seconds / 3_600), 24)
        name, smaller = "day" if many == 1 else "days", "h"
    return f"{many} {name} {rest} {smaller}" if rest else f"{many} {name}"
