"""How long work reports how far it is, without knowing who listens.

A long function takes `progress: Progress = silent` and opens one task per stretch of work:

    with progress("training vectors", total=epochs) as advance:
        for _ in range(epochs):
            ...
            advance(1)

The command line passes bars; the library stays silent unless asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

__all__ = ["Advance", "Progress", "silent"]

Advance = Callable[[int], None]
"""Tells that so many more units are done."""

Progress = Callable[[str, int | None], AbstractContextManager[Advance]]
"""Opens a task with a description and a total (`None` where it is unknown)."""


@contextmanager
def silent(description: str, total: int | None = None) -> Iterator[Advance]:
    """A `Progress` that shows nothing."""
    yield lambda amount: None
