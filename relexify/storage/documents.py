"""Documents: files that describe a finished output folder to its readers, such as a model card.

Upper packages register documents by file name; code that writes an output calls `write_documents` when the output is
complete. The sha256 of each document is recorded in `relexify.json`, so that documents that the user has edited are
recognised and kept.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from relexify.errors import first_line
from relexify.registry import Registry
from relexify.storage.files import record_file, recorded_sha256, sha256_of, write_file

__all__ = ["DOCUMENTS", "is_edited", "without_documents", "write_document", "write_documents"]

DOCUMENTS: Registry[Callable[[Path], str]] = Registry("document")
"""Functions that take an output folder and return the content of a file in it, by the name of the file."""

_are_written: ContextVar[bool] = ContextVar("_are_written", default=True)

logger = logging.getLogger(__name__)


def write_documents(folder: Path, *, only_missing: bool = False, leave_out: Collection[str] = ()) -> None:
    """Write all documents of a finished output folder; a failure is only logged, because the output itself is good.

    Args:
        folder: The folder.
        only_missing: Write only missing documents, if an earlier call may have been interrupted.
        leave_out: Names of documents not to write.
    """
    if not _are_written.get():
        return
    for name, render in DOCUMENTS.items():
        if name in leave_out or (only_missing and (folder / name).is_file()):
            continue
        try:
            write_document(folder / name, render(folder))
        except Exception as error:
            logger.warning("%s could not be written (%s)", folder / name, first_line(error))


def write_document(path: Path, content: str) -> Path:
    """Write a document into a finished output folder and record its sha256, unless both are up to date.

    Raises:
        OutputError: The document cannot be written.
    """
    data = content.encode("utf-8", "backslashreplace")  # as `write_file` encodes it
    digest = hashlib.sha256(data).hexdigest()
    # Nothing is written if nothing has changed, so that a read-only folder can be uploaded again.
    if not (path.is_file() and path.read_bytes() == data and recorded_sha256(path) == digest):
        write_file(record_file(path, sha256=digest), data)
    return path


def is_edited(path: Path) -> bool:
    """Whether somebody has changed a document since relexify wrote it.

    A document without a recorded sha256, from an earlier version, counts as changed unless it would be the same now.
    """
    if not path.is_file() or sha256_of(path) == recorded_sha256(path):
        return False
    rendered = DOCUMENTS[path.name](path.parent)
    return path.read_bytes() != rendered.encode("utf-8", "backslashreplace")


@contextmanager
def without_documents() -> Iterator[None]:
    """Write no documents in this block, for folders that only the next step reads."""
    before = _are_written.set(False)
    try:
        yield
    finally:
        _are_written.reset(before)
