"""The cache: results of slow steps, found again by the fingerprint of everything they depend on.

An entry is a folder `CACHE/KIND/FINGERPRINT` with the files of the result and `entry.json`, which holds the format
version and the size and checksum of every file. A corrupt entry is rebuilt. A cache that cannot be written costs
time, never a run.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from relexify.errors import InputError, OutputError
from relexify.progress import ONCE
from relexify.storage.checksums import checksums, find_damage
from relexify.storage.files import MARKER, write_folder, writing_failed
from relexify.storage.fingerprint import fingerprint
from relexify.version import __version__

__all__ = ["cache_folder", "cached", "cached_folder", "entry_path", "has_entries", "is_cached"]

FORMAT = 1
"""Version of the layout and of the content of entries; entries of another version are not found. The version of
relexify counts too, so it has to be raised only if a step computes something else between two releases."""
NO_CACHE = Path("/nonexistent/relexify")
"""The cache of a user without a home folder, which cannot be written."""
_ENTRY = "entry.json"

Result = TypeVar("Result")

logger = logging.getLogger(__name__)


def cache_folder() -> Path:
    """Return where results of slow steps are kept: `$RELEXIFY_CACHE`, or `relexify` in the user's cache folder."""
    own = os.environ.get("RELEXIFY_CACHE")
    if own:
        return Path(os.path.expanduser(own))  # which a file of settings does not expand
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "relexify"
    except RuntimeError:  # a user whom the system does not list, as in a container
        return NO_CACHE


def cached(
    kind: str,
    key: object,
    *,
    make: Callable[[], Result],
    save: Callable[[Result, Path], Any],
    load: Callable[[Path], Result],
) -> Result:
    """Return a result from the cache, or make it and keep it there.

    Args:
        kind: What it is, such as `"mixture"`; entries of one kind are in one folder.
        key: Everything that the result depends on, of any type that `fingerprint` accepts.
        make: Computes the result.
        save: Writes it into an empty folder.
        load: Reads it from that folder; raises `InputError` if the content is invalid.
    """
    path = entry_path(kind, key)
    found = _read(kind, path, load)
    if found is not None:
        return found[0]
    result = make()
    if not _write(kind, path, lambda folder: save(result, folder)):
        return result
    return load(path)  # so that the first run uses exactly what later runs will


def cached_folder(kind: str, key: object, write: Callable[[Path], Any]) -> Path:
    """Return a folder from the cache, or write it there; for results that are used from disk.

    If the cache cannot be written, the folder is a temporary one that lasts as long as the process.

    Args:
        kind: As in `cached`.
        key: As in `cached`.
        write: Fills an empty folder.

    Raises:
        OutputError: There is no space for it in the cache, nor in a temporary folder.
    """
    path = entry_path(kind, key)
    if _read(kind, path, lambda folder: folder) is not None or _write(kind, path, write):
        return path
    temporary = Path(tempfile.mkdtemp(prefix=f"relexify-{path.parent.name}-"))
    atexit.register(shutil.rmtree, temporary, ignore_errors=True)
    try:
        write(temporary)
    except OSError as error:
        raise writing_failed(temporary, error, "set RELEXIFY_CACHE") from error
    return temporary


def entry_path(kind: str, key: object) -> Path:
    """Return the folder of an entry, which may not exist; arguments as in `cached`."""
    name = fingerprint({"format": FORMAT, "version": __version__, "kind": kind, "key": key})
    return cache_folder() / kind / name[:32]  # 128 bits suffice against collisions, and keep paths short


def is_cached(kind: str, key: object) -> bool:
    """Whether a result is in the cache; arguments as in `cached`, which may find it damaged all the same."""
    try:
        return entry_path(kind, key).exists()
    except OSError:  # a folder of another user
        return False


def has_entries(kind: str) -> bool:
    """Whether the cache holds anything of a kind."""
    return any((cache_folder() / kind).glob(f"*/{_ENTRY}"))


def _read(kind: str, path: Path, load: Callable[[Path], Result]) -> tuple[Result] | None:
    """Load an entry; in a tuple, because a result may be None."""
    try:
        if not path.exists():
            return None
    except OSError:  # a folder of another user; that it cannot be written is reported
        return None
    try:
        damage = find_damage(path, json.loads((path / _ENTRY).read_text())["files"])
        if damage:
            raise InputError(damage)
        found = load(path)
    except PermissionError:
        logger.warning("the cached %s belongs to another user and cannot be read; rebuilding it", _described(kind))
        return None
    except (InputError, OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        logger.warning("the cached %s is corrupt; rebuilding it (%s)", _described(kind), error)
        return None
    logger.info("using the cached %s", _described(kind), extra=ONCE)
    logger.debug("it is in %s", path)
    return (found,)


def _described(kind: str) -> str:
    """Return a kind of entries for messages: that of `alignments/…` without the text, `original-score` as words."""
    return kind.partition("/")[0].replace("-", " ")


def _write(kind: str, path: Path, write: Callable[[Path], Any]) -> bool:
    """Write an entry; return whether it is there."""
    try:
        with write_folder(path, internal=True) as folder:
            write(folder)
            files = checksums(folder)
            files.pop(MARKER, None)  # it is completed when the folder is finished
            (folder / _ENTRY).write_text(json.dumps({"format": FORMAT, "kind": kind, "files": files}))
    except (OutputError, OSError) as error:
        if _read(kind, path, lambda folder: folder) is not None:
            return True  # another process has written the same entry in the meantime
        logger.warning(
            "the cache cannot be written, so a result (%s) is not kept (%s): set RELEXIFY_CACHE", kind, error
        )
        return False
    return True
