"""Checkpoints of a training run: each is complete or ignored.

A checkpoint is sealed last: its seal lists all files with their sizes and checksums. A folder without a seal was
left by a killed run and is removed. A checkpoint whose files differ from its seal is damaged, and the run resumes from
the one before it.
"""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from pickle import UnpicklingError

from safetensors import SafetensorError

from relexify.errors import InputError, OutputError
from relexify.storage.checksums import checksums, find_damage
from relexify.storage.files import sync_to_disk, write_file, writing_failed
from relexify.storage.json import read_json
from relexify.storage.runs.claims import restart_advice

__all__ = [
    "SEAL",
    "drop_checkpoint",
    "find_checkpoint",
    "remove_unsealed",
    "resuming_from",
    "rotate_checkpoints",
    "seal",
    "sealed_checkpoints",
    "write_checkpoint",
]

SEAL = "sealed.json"
"""The file in a checkpoint that shows that it is complete, and how to find out whether it is intact."""
_PREFIX = "checkpoint-"

logger = logging.getLogger(__name__)


def write_checkpoint(
    folder: Path,
    step: int,
    write: Callable[[], None],
    *,
    keep: int,
    best: int | None,
    advice: str,
    is_main: bool = True,
) -> None:
    """Write and seal a checkpoint, and only then remove older ones; on an error, nothing of it is left.

    Args:
        folder: Where checkpoints are.
        step: The step of this one.
        write: Lets a transformers Trainer write it; all processes call it together.
        keep: How many of the newest to keep.
        best: The step of the best one; None if there is none.
        advice: What to do if it cannot be written.
        is_main: Whether this is the process that seals and removes checkpoints.

    Raises:
        OutputError: It cannot be written.
    """
    checkpoint = folder / f"{_PREFIX}{step}"
    try:
        if is_main and checkpoint.exists():
            drop_checkpoint(checkpoint)
        write()
        if is_main:
            (checkpoint / "training_args.bin").unlink(missing_ok=True)  # a pickle, and never read
            seal(checkpoint)
    except (OSError, SafetensorError, RuntimeError, OutputError) as error:
        if is_main:
            shutil.rmtree(checkpoint, ignore_errors=True)
        raise writing_failed(checkpoint, error, advice) from error
    if is_main:
        rotate_checkpoints(folder, current=step, keep=keep, best=best)


def seal(checkpoint: Path) -> None:
    """Declare a checkpoint complete, after all of it has reached the disk."""
    for path in checkpoint.rglob("*"):
        if path.is_file():
            sync_to_disk(path)
    write_file(checkpoint / SEAL, json.dumps(checksums(checkpoint), indent=1) + "\n")


def sealed_checkpoints(folder: Path) -> list[Path]:
    """Return the sealed checkpoints in a folder, oldest first, including damaged ones."""
    found = [path for path in folder.glob(f"{_PREFIX}*") if (path / SEAL).exists()]
    return sorted(found, key=_step)


def find_checkpoint(folder: Path) -> Path | None:
    """Return the newest intact checkpoint; None if there are no checkpoints.

    Raises:
        InputError: There are checkpoints, and all of them are damaged.
    """
    found = sealed_checkpoints(folder)
    reason = ""
    for checkpoint in reversed(found):
        reason = _damage(checkpoint) or _damage_of_best(checkpoint)
        if not reason:
            return checkpoint
        logger.warning("%s is damaged (%s): resuming from the checkpoint before it", checkpoint, reason)
    if found:
        raise InputError(f"every checkpoint in {folder} is damaged ({reason}): {restart_advice(folder)}")
    return None


@contextmanager
def resuming_from(checkpoint: Path | None) -> Iterator[None]:
    """Report a checkpoint that torch does not load, because its pickles contain more than numbers, as `InputError`.

    Raises:
        InputError: It was not written by relexify.
    """
    try:
        yield
    except UnpicklingError as error:
        if checkpoint is None:
            raise
        raise InputError(
            f"{checkpoint} holds a pickle that contains more than numbers, which relexify does not load: "
            f"{restart_advice(checkpoint.parent)}"
        ) from error


def remove_unsealed(folder: Path) -> None:
    """Remove checkpoints that a killed run did not complete."""
    for path in folder.glob(f"{_PREFIX}*"):
        if not (path / SEAL).exists():
            shutil.rmtree(path, ignore_errors=True)


def rotate_checkpoints(folder: Path, *, current: int, keep: int, best: int | None) -> None:
    """Remove all sealed checkpoints but the newest ones and the best one.

    Args:
        folder: Where they are.
        current: The step of the one that has just been sealed. Those of later steps were damaged when the run resumed,
            and must not be counted as kept.
        keep: How many of the newest to keep.
        best: The step of the best one; None if there is none.
    """
    sealed = sealed_checkpoints(folder)
    kept = [checkpoint for checkpoint in sealed if _step(checkpoint) <= current][-keep:]
    for checkpoint in sealed:
        if checkpoint not in kept and _step(checkpoint) != best:
            drop_checkpoint(checkpoint)


def drop_checkpoint(checkpoint: Path) -> None:
    """Remove a checkpoint, its seal first, so that a partial one is never taken for complete."""
    (checkpoint / SEAL).unlink(missing_ok=True)
    shutil.rmtree(checkpoint, ignore_errors=True)


def _damage(checkpoint: Path) -> str:
    """Describe what is wrong with a sealed checkpoint; empty if it is intact."""
    entries = read_json(checkpoint / SEAL)
    if isinstance(entries, dict):
        return find_damage(checkpoint, entries)
    return "its list of files cannot be read"


def _damage_of_best(checkpoint: Path) -> str:
    """Describe what is wrong with the best checkpoint so far, which a run also needs in order to resume."""
    state = read_json(checkpoint / "trainer_state.json")
    step = state.get("best_global_step") if isinstance(state, dict) else None
    best = checkpoint.with_name(f"{_PREFIX}{step}")
    if best == checkpoint or not (best / SEAL).exists():
        return ""
    reason = _damage(best)
    return f"the best one so far, {best.name}, is: {reason}" if reason else ""


def _step(checkpoint: Path) -> int:
    number = checkpoint.name.removeprefix(_PREFIX)
    return int(number) if number.isdigit() else -1
