"""Checkpoints of a training run: each is complete or ignored.

The last file of a checkpoint is its seal, which lists all files with their sizes and checksums. A folder without a seal
was left by a killed run and is removed. A checkpoint whose files differ from its seal is damaged; the run then resumes
from the previous one.
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
"""The file that marks a checkpoint as complete; its checksums show whether the checkpoint is intact."""
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
    """Write and seal a checkpoint, and only then remove older ones; on an error, the new one is removed completely.

    Args:
        folder: The folder with the checkpoints.
        step: The step of the new checkpoint.
        write: Makes a transformers Trainer write the checkpoint; all processes call it together.
        keep: Number of the newest checkpoints to keep.
        best: The step of the best checkpoint; None if there is none.
        advice: What to do if the checkpoint cannot be written.
        is_main: Whether this is the process that seals and removes checkpoints.

    Raises:
        OutputError: The checkpoint cannot be written.
    """
    checkpoint = folder / f"{_PREFIX}{step}"
    try:
        if is_main and checkpoint.exists():
            drop_checkpoint(checkpoint)
        write()
        if is_main:
            (checkpoint / "training_args.bin").unlink(missing_ok=True)  # a pickle that relexify never reads
            seal(checkpoint)
    except (OSError, SafetensorError, RuntimeError, OutputError) as error:
        if is_main:
            shutil.rmtree(checkpoint, ignore_errors=True)
        raise writing_failed(checkpoint, error, advice) from error
    if is_main:
        rotate_checkpoints(folder, current=step, keep=keep, best=best)


def seal(checkpoint: Path) -> None:
    """Mark a checkpoint as complete, after flushing all its files to disk."""
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
        InputError: There are checkpoints, but all of them are damaged.
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
    """Raise an `InputError` for a checkpoint that torch does not load because its pickles contain more than numbers.

    Raises:
        InputError: The checkpoint was not written by relexify.
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
    """Remove all sealed checkpoints except the newest ones and the best one.

    Args:
        folder: The folder with the checkpoints.
        current: The step of the checkpoint that has just been sealed. Checkpoints of later steps were damaged when the
            run resumed; they are not among the newest.
        keep: Number of the newest checkpoints to keep.
        best: The step of the best checkpoint; None if there is none.
    """
    sealed = sealed_checkpoints(folder)
    kept = [checkpoint for checkpoint in sealed if _step(checkpoint) <= current][-keep:]
    for checkpoint in sealed:
        if checkpoint not in kept and _step(checkpoint) != best:
            drop_checkpoint(checkpoint)


def drop_checkpoint(checkpoint: Path) -> None:
    """Remove a checkpoint, its seal first, so that a partly removed one is never taken for complete."""
    (checkpoint / SEAL).unlink(missing_ok=True)
    shutil.rmtree(checkpoint, ignore_errors=True)


def _damage(checkpoint: Path) -> str:
    """Describe the damage of a sealed checkpoint; empty if it is intact."""
    entries = read_json(checkpoint / SEAL)
    if isinstance(entries, dict):
        return find_damage(checkpoint, entries)
    return "its list of files cannot be read"


def _damage_of_best(checkpoint: Path) -> str:
    """Describe the damage of the best checkpoint so far, which a run also needs to resume; empty if it is intact."""
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
