"""Locks that keep other processes out of a folder, where the system and the file system support them."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from relexify.errors import InputError

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["LASTING_LOCK_FILE", "LOCK_FILE", "locked_beside", "only_one"]

logger = logging.getLogger(__name__)

LOCK_FILE = "lock"
"""The lock file in a work folder."""
LASTING_LOCK_FILE = ".lock"
"""The lock file in a folder whose results stay; its name differs, to distinguish such a folder from a work folder."""


@contextmanager
def only_one(folder: Path, *, file: str = LOCK_FILE) -> Iterator[None]:
    """Lock a folder, and raise an error immediately if another process holds its lock.

    Args:
        folder: An existing folder.
        file: The name of the lock file in it, which is not removed.

    Raises:
        InputError: Another process is working in the folder.
    """
    path = folder / file
    used = InputError(f"another process is working in {folder}: wait for it, or choose another output")
    try:
        stream = open(path, "w")  # noqa: SIM115 (closed below)
    except FileNotFoundError as error:  # another process has just finished, and removed the folder
        raise used from error
    with stream:
        try:
            if fcntl is not None:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # Its owner may have removed the file in the meantime; a lock on a removed file excludes nobody.
                if not os.path.samestat(os.fstat(stream.fileno()), os.stat(path)):
                    raise BlockingIOError
        except (BlockingIOError, FileNotFoundError) as error:
            raise used from error
        except OSError as error:  # some network file systems do not support locks
            logger.warning("%s cannot be locked (%s): start one process at a time with it", folder, error.strerror)
        yield


@contextmanager
def locked_beside(folder: Path) -> Iterator[None]:
    """Lock the parent of a folder, and wait if another process holds its lock.

    The folder itself is not locked, because a process that writes the same output may replace it.
    """
    handle = None
    with suppress(OSError):
        handle = os.open(folder.absolute().parent, os.O_RDONLY)
        if fcntl is not None:
            fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        yield
    finally:
        if handle is not None:
            os.close(handle)
