"""Grafted models that lie beside a run until it is done: written once, known by what went into them."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from relexify.storage.files import MARKER, check_output, write_file
from relexify.storage.fingerprint import fingerprint
from relexify.systems.transfer.options import Transfer
from relexify.systems.transfer.run import run_transfer

__all__ = ["clear_graft", "graft_once", "is_grafted", "read_note", "transfer_identity"]


def graft_once(transfer: Transfer) -> None:
    """Write the grafted model, unless an earlier run did; training measures it, so it is not scored."""
    if is_grafted(transfer):
        return
    folder = Path(transfer.output)
    ours = _note_of(folder).exists()
    if not ours:
        check_output(folder)
    write_file(_note_of(folder), json.dumps("under way") + "\n")
    run_transfer(replace(transfer, score=False, overwrite=True))
    write_file(_note_of(folder), json.dumps(transfer_identity(transfer)) + "\n")


def is_grafted(transfer: Transfer) -> bool:
    """Whether the graft lies in its place, whole."""
    folder = Path(transfer.output)
    return (folder / MARKER).exists() and read_note(_note_of(folder)) == transfer_identity(transfer)


def clear_graft(grafted: Path) -> None:
    """Remove a grafted model that is done with; one without our note beside it is somebody else's."""
    if not _note_of(grafted).exists():
        return
    shutil.rmtree(grafted, ignore_errors=True)
    _note_of(grafted).unlink(missing_ok=True)


def read_note(path: Path) -> Any:
    """What a json file holds; nothing where it cannot be read."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None


def transfer_identity(transfer: Transfer) -> str:
    """A name that changes with everything that a graft depends on, by content."""
    return fingerprint(transfer)


def _note_of(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.json")
