"""Progress reports of long work.

Long work opens a task, and counts what is done:

    with track("training vectors", total=epochs) as advance:
        for _ in range(epochs):
            ...
            advance(1)

Tasks are shown by the current reporter. By default nothing is shown; the command line sets a reporter with
`report_to`. The reporter is a context variable: a new thread starts without one, and must be run in a copy of the
context (`contextvars.copy_context().run`) if it opens tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar

__all__ = ["Advance", "Progress", "report_to", "report_under", "track"]

Advance = Callable[[int], None]
"""Adds a number of finished units to a task."""

Progress = Callable[[str, int | None], AbstractContextManager[Advance]]
"""A reporter: opens a task with a description and a total (`None` if unknown)."""


@contextmanager
def _silent(description: str, total: int | None = None) -> Iterator[Advance]:
    """A reporter that shows nothing."""
    yield lambda amount: None


_reporter: ContextVar[Progress] = ContextVar("reporter", default=_silent)


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
