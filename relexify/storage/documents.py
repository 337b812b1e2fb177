"""Documents: files that describe a finished output folder to its readers, such as a model card.

Upper packages register them, by file name; code that writes an output calls `write_documents` when it is complete.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from relexify.errors import first_line
from relexify.registry import Registry
from relexify.storage.files import record_file, write_file

__all__ = ["DOCUMENTS", "without_documents", "write_documents"]

DOCUMENTS: Registry[Callable[[Path], str]] = Registry("document")
"""Functions that take an output folder and return the content of a file in it, by the name of the file."""

_are_written: ContextVar[bool] = ContextVar("_are_written", default=True)

logger = logging.getLogger(__name__)


def write_documents(folder: Path, *, only_missing: bool = False) -> None:
    """Write all documents of a finished output folder; one that fails is reported, since the output itself is good.

    Args:
        folder: The folder.
        only_missing: Keep those that are there, after a call that may have been interrupted before it wrote all.
    """
    if not _are_written.get():
        return
    for name, render in DOCUMENTS.items():
        if only_missing and (folder / name).is_file():
            continue
        try:
            write_file(record_file(folder / name), render(folder))
        except Exception as error:
            logger.warning("%s could not be written (%s)", folder / name, first_line(error))


@contextmanager
def without_documents() -> Iterator[None]:
    """Write no documents in this block, for folders that only the next step reads."""
    before = _are_written.set(False)
    try:
        yield
    finally:
        _are_written.reset(before)
