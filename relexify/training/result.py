"""What a training came to, and its folder: the model, its curve, and notes on all that led to it."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from relexify.artifacts import MARKER, write_file, write_folder
from relexify.grafting import MIXTURE_FILE, save_tokenizer
from relexify.training.curve import Curve
from relexify.training.identity import digest_of
from relexify.training.plan import Training

__all__ = ["CURVE_FILE", "TrainingResult", "finished_result", "is_trained", "notes_of", "write_result"]

CURVE_FILE = "training.json"


@dataclass(frozen=True)
class TrainingResult:
    """What a training came to.

    Attributes:
        output: The folder with the trained model.
        curve: What was measured on held-out text.
        selected: The step whose parameters were kept: the last, or the best measured one.
        tokens: Tokens seen.
        seconds: Wall-clock time of this call.
        tokens_per_second: Of training alone, in this call; None where it was too short to tell.
    """

    output: Path
    curve: Curve
    selected: int
    tokens: int
    seconds: float
    tokens_per_second: float | None


def is_trained(output: str | Path) -> bool:
    """Whether a folder is the result of a training."""
    return "run" in notes_of(output).get("training", {})


def notes_of(source: str | Path) -> dict[str, Any]:
    """What the source folder says about itself, so that a trained graft still tells of its graft."""
    try:
        notes = json.loads((Path(source) / MARKER).read_text())
    except (OSError, ValueError):
        return {"trained_from": str(source)}
    return {**notes, "trained_from": str(source)} if isinstance(notes, dict) else {"trained_from": str(source)}


def finished_result(output: Path, work: Path, seconds: float) -> TrainingResult:
    """What an earlier call came to, which may have been stopped while it was clearing up."""
    shutil.rmtree(work, ignore_errors=True)
    curve, notes = Curve.load(output / CURVE_FILE), notes_of(output)["training"]
    return TrainingResult(
        output, curve, notes["selected_step"], notes["tokens_seen"], seconds, notes["tokens_per_second"]
    )


def write_result(
    model: Any,
    tokenizer: Any,
    source: str | Path,
    work: Path,
    outcome: TrainingResult,
    training: Training,
    run: dict[str, Any],
    overwrite: bool,
) -> None:
    """Write the trained model with all that is known about it; only then let go of the work."""
    with write_folder(outcome.output, overwrite=overwrite) as folder:
        model.save_pretrained(folder)
        save_tokenizer(tokenizer, folder)
        outcome.curve.save(folder / CURVE_FILE)
        notes = notes_of(source)
        notes["training"] = {
            "run": digest_of(run),
            **asdict(training),
            "selected_step": outcome.selected,
            "tokens_seen": outcome.tokens,
            "tokens_per_second": outcome.tokens_per_second,
        }
        write_file(folder / MARKER, json.dumps(notes, indent=2, ensure_ascii=False) + "\n")
        if (Path(source) / MIXTURE_FILE).is_file():
            shutil.copyfile(Path(source) / MIXTURE_FILE, folder / MIXTURE_FILE)
        for logs in sorted(work.glob("*/logs")):
            shutil.copytree(logs, folder / "logs" / logs.parent.name)
    shutil.rmtree(work, ignore_errors=True)
