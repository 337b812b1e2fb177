"""Grafted models that lie beside a run until it is done: written once, known by what went into them."""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from relexify.evidence.bitext import Bitext
from relexify.evidence.lexicon import BilingualLexicon
from relexify.storage.files import MARKER, check_output, sha256_of, write_file
from relexify.systems.transfer.options import Transfer
from relexify.systems.transfer.run import run_transfer
from relexify.text import Corpus

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
    texts = ("corpus", "source_corpus", "held_out")
    files = ("alignment", "rotation", "source_vectors", "target_vectors")
    values: dict[str, Any] = {}
    for entry in fields(transfer):
        value = getattr(transfer, entry.name)
        if entry.name in ("output", "overwrite", "device", "score", "score_bytes") or value is None:
            continue
        if entry.name == "dictionary" and isinstance(value, str | Path):  # it may be spread over several files
            value = BilingualLexicon.load(value, swapped=transfer.dictionary_swapped).pairs
        elif entry.name in texts:
            value = Corpus.open(value).fingerprint()
        elif entry.name == "bitext":
            value = Bitext.open(value, fields=transfer.aligning.fields, swapped=transfer.aligning.swapped).fingerprint()
        elif (entry.name in files and isinstance(value, str | Path)) or (
            entry.name in ("model", "tokenizer") and Path(value).is_dir()
        ):
            value = sha256_of(value)
        values[entry.name] = value
    text = json.dumps(values, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def _note_of(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.json")
