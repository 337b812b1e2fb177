"""Checkpoints that a killed run goes on from: whole or not there, and known to belong to the run.

A checkpoint is sealed last of all: a file lists its files with their sizes and checksums. Without a seal it is what a
killed run left behind, and swept away; with a seal that does not fit, it is damaged, and the one before it is taken.
"""

from __future__ import annotations

import json
import logging
import shutil
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from relexify.artifacts import MARKER, sync_to_disk, write_file
from relexify.errors import InputError

__all__ = ["claim_folder", "drop_checkpoint", "find_checkpoint", "seal", "sealed_checkpoints", "sweep"]

RUN_FILE = "run.json"
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
        write_file(path, json.dumps(run, indent=1, sort_keys=True) + "\n")
        return
    try:
        other = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise InputError(f"{path} is damaged ({error}): {_begin_anew(folder)}") from error
    here = json.loads(json.dumps(run))
    for name in sorted({*here, *other}):
        if other.get(name) != here.get(name):
            raise InputError(
                f"{folder} holds the checkpoints of another training: its {name} was {_short(other.get(name))}, "
                f"here it is {_short(here.get(name))}; {_begin_anew(folder)}"
            )


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
        reason = _damage(checkpoint)
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


def _checksum(path: Path) -> int:
    value = 0
    with open(path, "rb") as stream:
        while block := stream.read(_BLOCK):
            value = zlib.crc32(block, value)
    return value


def _step(checkpoint: Path) -> int:
    number = checkpoint.name.removeprefix(_PREFIX)
    return int(number) if number.isdigit() else -1


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def _begin_anew(folder: Path) -> str:
    return f"pass --overwrite to begin anew, or give another output ({folder.name} is where it would go on)"
