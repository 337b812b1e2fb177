"""Finished seeds of a fine-tuning, kept as json, and what tells one fine-tuning from another."""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from relexify.evaluation.data.files import TaskData
from relexify.evaluation.finetuning.problem import Data
from relexify.evaluation.metrics import Confusion, LabelRow
from relexify.evaluation.options import FineTuning
from relexify.evaluation.results import SeedResult
from relexify.scoring import Score
from relexify.storage.files import sha256_of, write_file

__all__ = ["keep_seed", "kept_seed", "run_of"]

_MODEL_FILES = (".json", ".safetensors", ".bin", ".txt", ".model")

logger = logging.getLogger(__name__)


def run_of(
    model: str | Path, task: str, options: FineTuning, data: TaskData, through: str | Path | None = None
) -> dict[str, Any]:
    """Return everything that the result of a seed depends on."""
    sets = {"training data": data.train, "test data": data.test, "development data": data.dev}
    read = {} if through is None else {"through": _identity(through)}
    digests = {name: None if part is None else _digest(part) for name, part in sets.items()}
    return {"model": _identity(model), "task": task, **read, **asdict(options), **digests}


def keep_seed(folder: Path, result: SeedResult | None) -> None:
    """Write a finished seed, and drop its checkpoints."""
    assert result is not None
    write_file(folder / f"seed-{result.seed}.json", json.dumps(asdict(result), ensure_ascii=False, indent=1) + "\n")
    shutil.rmtree(folder / f"seed-{result.seed}", ignore_errors=True)


def kept_seed(folder: Path, seed: int) -> SeedResult | None:
    """A seed that was finished earlier."""
    path = folder / f"seed-{seed}.json"
    if not path.exists():
        return None
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        shape = found["confusion"]
        return SeedResult(
            int(found["seed"]),
            tuple(Score(**score) for score in found["scores"]),
            Score(**found["dev"]) if found["dev"] else None,
            int(found["epoch"]),
            tuple(LabelRow(**row) for row in found["table"]),
            Confusion(tuple(shape["labels"]), tuple(map(tuple, shape["counts"]))) if shape else None,
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        logger.warning("%s is damaged (%s): seed %d is trained anew", path, error, seed)
        return None


def _identity(model: str | Path) -> str:
    """The content of a folder, or the name on the Hub."""
    folder = Path(model)
    if not folder.is_dir():
        return str(model)
    files = sorted(path for path in folder.iterdir() if path.suffix in _MODEL_FILES and path.is_file())
    return _sha256(f"{path.name} {sha256_of(path)}" for path in files)


def _digest(data: Data) -> str:
    return _sha256(json.dumps(asdict(each)) for each in data)


def _sha256(parts: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.encode() + b"\n")
    return digest.hexdigest()
