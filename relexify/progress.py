"""How long work reports how far it is, without knowing who listens.

A long function takes `progress: Progress = silent` and opens one task per stretch of work:

    with progress("training vectors", total=epochs) as advance:
        for _ in range(epochs):
            ...
            advance(1)

The command line passes bars; the library stays silent unless asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TypeVar

__all__ = ["Advance", "Progress", "silent", "track"]

Item = TypeVar("Item")

Advance = Callable[[int], None]
"""Tells that so many more units are done."""

Progress = Callable[[str, int | None], AbstractContextManager[Advance]]
"""Opens a task with a description and a total (`None` where it is unknown)."""


@contextmanager
def silent(description: str, total: int | None = None) -> Iterator[Advance]:
    """A `Progress` that shows nothing."""
    yield lambda amount: None


def track(items: Iterable[Item], progress: Progress, description: str, total: int | None = None) -> Iterator[Item]:
    """Yield the items, advancing one task by one for each."""
    with progress(description, total) as advance:
        for item in items:
            yield item
            advance(1)
