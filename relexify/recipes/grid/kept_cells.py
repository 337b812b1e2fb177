"""Cells of a grid, kept as json as soon as they are scored, and known again by all that their scores depend on."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from relexify.errors import InputError
from relexify.recipes.grid.plan import GridCell, GridSearch, cells_folder, label_of
from relexify.recipes.grid.scores import GridMaterial
from relexify.scoring import Score
from relexify.storage.files import write_file
from relexify.storage.fingerprint import fingerprint
from relexify.systems.transfer.options import Transfer

__all__ = ["cell_name", "keep_cell", "kept_cell"]

logger = logging.getLogger(__name__)


def cell_name(search: GridSearch, recipe: Transfer, material: GridMaterial, cell: GridCell) -> str:
    """A name that changes with everything that a cell's scores depend on, by content."""
    tried = replace(
        recipe,
        method=cell.initialisation,
        neighbours=cell.neighbours or 1,
        temperature=cell.temperature or 1.0,
        held_out=None,
    )
    return fingerprint(
        {
            "graft": tried,
            "corpus": material.evidence.corpus,
            "held_out": material.held_out,
            "nli": _fingerprint(material.nli),
            "pos": _fingerprint(material.pos),
            "probe": [search.penalty, search.length],
        }
    )


def keep_cell(recipe: Transfer, cell: GridCell, name: str) -> None:
    """Write a cell with its scores."""
    path = cells_folder(recipe) / f"{label_of(cell)}.json"
    write_file(path, json.dumps({"name": name, **asdict(cell)}, indent=1) + "\n")


def kept_cell(recipe: Transfer, cell: GridCell, name: str) -> GridCell:
    """The cell with the scores of an earlier run, where there are any.

    Raises:
        InputError: The scores are another grid's, which may not be overwritten.
    """
    path = cells_folder(recipe) / f"{label_of(cell)}.json"
    if not path.exists():
        return cell
    try:
        notes = json.loads(path.read_text())
        scores = {key: Score(**score) for key, score in notes["scores"].items()}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        logger.warning("%s is damaged, and scored anew (%r)", path, error)
        return cell
    if notes.get("name") == name:
        return replace(cell, scores=scores)
    if not recipe.overwrite:
        raise InputError(f"{path} belongs to another grid: give another output, or pass --overwrite to do it anew")
    return cell


def _fingerprint(sides: tuple[Sequence[Any], Sequence[Any]] | None) -> str | None:
    if sides is None:
        return None
    digest = hashlib.sha256()
    for side in sides:
        for first, second, *label in side:
            texts = [list(part) if not isinstance(part, str) else part for part in (first, second)]
            digest.update(json.dumps([texts, label], default=str).encode())
        digest.update(b"\n")
    return digest.hexdigest()
