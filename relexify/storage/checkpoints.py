"""Checkpoints that a killed run goes on from: whole or not there, and known to belong to the run.

A checkpoint is sealed last of all: a file lists its files with their sizes and checksums. Without a seal it is what a
killed run left behind, and swept away; with a seal that does not fit, it is damaged, and the one before it is taken.
"""

from __future__ import annotations

import json
import logging
import shutil
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from relexify.errors import InputError
from relexify.storage.files import MARKER, sync_to_disk, write_file

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["claim_folder", "drop_checkpoint", "find_checkpoint", "only_one", "seal", "sealed_checkpoints", "sweep"]

RUN_FILE = "run.json"
_LOCK = "lock"
_PREFIX = "checkpoint-"
_BLOCK = 1 << 22

logger = logging.getLogger(__name__)


def claim_folder(folder: Path, run: Mapping[str, Any]) -> None:
    """Mark a folder as that of a run, or make sure that it is.

    Args:
        folder: For checkpoints; made where it is missing.
        run: All that the result depends on.

    Raises:
        InputError: Another run's checkpoints lie there.
    """
    path = folder / RUN_FILE
    if not path.exists():
        if folder.exists() and any(folder.iterdir()):
            raise InputError(
                f"{folder}, where checkpoints would go, holds files that relexify did not write: "
                "move them, or give another output"
            )
        write_file(path, json.dumps(run, indent=1, sort_keys=True) + "\n")
        return
    try:
        other = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise InputError(f"{path} is damaged ({error}): {_begin_anew(folder)}") from error
    before, here = _leaves(other), _leaves(json.loads(json.dumps(run)))
    for name in sorted({*here, *before}):
        if before.get(name) != here.get(name):
            raise InputError(
                f"{folder} holds the checkpoints of another training: its {name} was {_short(before.get(name))}, "
                f"here it is {_short(here.get(name))}; {_begin_anew(folder)}"
            )


@contextmanager
def only_one(folder: Path) -> Iterator[None]:
    """Keep other processes out of a folder for checkpoints, where the system can.

    Raises:
        InputError: Another process is training there.
    """
    with open(folder / _LOCK, "w") as stream:
        try:
            if fcntl is not None:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise InputError(f"another process is training in {folder}: wait for it, or give another output") from error
        yield


def seal(checkpoint: Path) -> None:
    """Declare a checkpoint complete, once all of it has reached the disk."""
    files = {str(path.relative_to(checkpoint)): path for path in sorted(checkpoint.rglob("*")) if path.is_file()}
    for path in files.values():
        sync_to_disk(path)
    entries = {name: {"size": path.stat().st_size, "crc32": _checksum(path)} for name, path in files.items()}
    write_file(checkpoint / MARKER, json.dumps(entries, indent=1) + "\n")


def sealed_checkpoints(folder: Path) -> list[Path]:
    """Checkpoints that were finished, oldest first, damaged ones among them."""
    found = [path for path in folder.glob(f"{_PREFIX}*") if (path / MARKER).exists()]
    return sorted(found, key=_step)


def find_checkpoint(folder: Path) -> Path | None:
    """The newest sound checkpoint; None where no run has left any.

    Raises:
        InputError: There are checkpoints, and all of them are damaged.
    """
    found = sealed_checkpoints(folder)
    reason = ""
    for checkpoint in reversed(found):
        reason = _damage(checkpoint) or _damage_of_best(checkpoint)
        if not reason:
            return checkpoint
        logger.warning("%s is damaged (%s): going back to the one before it", checkpoint, reason)
    if found:
        raise InputError(f"every checkpoint in {folder} is damaged ({reason}): {_begin_anew(folder)}")
    return None


def sweep(folder: Path) -> None:
    """Remove what killed runs left half written."""
    for path in folder.glob(f"{_PREFIX}*"):
        if not (path / MARKER).exists():
            shutil.rmtree(path, ignore_errors=True)


def drop_checkpoint(checkpoint: Path) -> None:
    """Remove a checkpoint, its seal first, so that half of one is never taken for whole."""
    (checkpoint / MARKER).unlink(missing_ok=True)
    shutil.rmtree(checkpoint, ignore_errors=True)


def _damage(checkpoint: Path) -> str:
    """What is wrong with a sealed checkpoint; nothing where it is sound."""
    try:
        entries = json.loads((checkpoint / MARKER).read_text())
        for name, entry in entries.items():
            path = checkpoint / name
            if not path.is_file():
                return f"{name} is missing"
            if path.stat().st_size != entry["size"]:
                return f"{name} has {path.stat().st_size} bytes, not {entry['size']}"
            if _checksum(path) != entry["crc32"]:
                return f"{name} is not what was written"
        if not entries:
            return "it lists no files"
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        return f"its list of files cannot be read: {error}"
    return ""


def _damage_of_best(checkpoint: Path) -> str:
    """What is wrong with the checkpoint that this one remembers as the best so far, if it is kept."""
    try:
        step = json.loads((checkpoint / "trainer_state.json").read_text()).get("best_global_step")
    except (OSError, ValueError):
        return ""
    best = checkpoint.with_name(f"{_PREFIX}{step}")
    if best == checkpoint or not (best / MARKER).exists():
        return ""
    reason = _damage(best)
    return f"the best one so far, {best.name}, is: {reason}" if reason else ""


def _checksum(path: Path) -> int:
    value = 0
    with open(path, "rb") as stream:
        while block := stream.read(_BLOCK):
            value = zlib.crc32(block, value)
    return value


def _step(checkpoint: Path) -> int:
    number = checkpoint.name.removeprefix(_PREFIX)
    return int(number) if number.isdigit() else -1


def _leaves(value: Any, name: str = "") -> dict[str, Any]:
    """The single values of nested tables and lists, by where they stand."""
    if isinstance(value, dict):
        parts = {f"{name}.{key}" if name else str(key): each for key, each in value.items()}
    elif isinstance(value, list):
        parts = {f"{name}[{place}]": each for place, each in enumerate(value)}
    else:
        return {name: value}
    return {key: leaf for part, each in parts.items() for key, leaf in _leaves(each, part).items()}


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def _begin_anew(folder: Path) -> str:
    return f"pass --overwrite to begin anew, or give another output ({folder.name} is where it would go on)"
