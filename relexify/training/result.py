"""What a training came to, and its folder: the model, its curve, and notes on all that led to it."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from relexify.storage.files import MARKER, write_file, write_folder
from relexify.storage.work import read_notes
from relexify.training.curve import Curve
from relexify.training.identity import digest_of
from relexify.training.job import TrainingJob
from relexify.training.plan import Training

__all__ = [
    "CURVE_FILE",
    "TrainingResult",
    "finished_result",
    "is_trained",
    "load_result",
    "work_folder",
    "write_result",
]

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
    return "run" in read_notes(output).get("training", {})


def work_folder(output: Path) -> Path:
    """Where checkpoints lie until the output is written."""
    return output.with_name(f"{output.name}.training")


def load_result(output: Path) -> TrainingResult:
    """What an earlier training came to, in no time.

    Raises:
        InputError: The folder's curve is missing or damaged.
    """
    return finished_result(output, 0.0)


def finished_result(output: Path, seconds: float) -> TrainingResult:
    """What an earlier call came to, which may have been stopped while it was clearing up."""
    shutil.rmtree(work_folder(output), ignore_errors=True)
    curve, notes = Curve.load(output / CURVE_FILE), read_notes(output)["training"]
    return TrainingResult(
        output, curve, notes["selected_step"], notes["tokens_seen"], seconds, notes["tokens_per_second"]
    )


def write_result(
    subject: TrainingJob,
    stage: Path | None,
    outcome: TrainingResult,
    training: Training,
    run: dict[str, Any],
    overwrite: bool,
) -> None:
    """Write the trained model with all that is known about it; only then let go of the work.

    Args:
        subject: What was trained.
        stage: The folder of the stage whose model it is; None for the model that training began with.
        outcome: What the training came to.
        training: How it was trained.
        run: What tells it from others.
        overwrite: Replace the output.
    """
    trained, work = subject.reload(stage), work_folder(outcome.output)
    with write_folder(outcome.output, overwrite=overwrite) as folder:
        subject.write(trained.to(subject.dtype), folder)
        outcome.curve.save(folder / CURVE_FILE)
        notes = dict(subject.notes)
        notes["training"] = {
            "run": digest_of(run),
            **asdict(training),
            "selected_step": outcome.selected,
            "tokens_seen": outcome.tokens,
            "tokens_per_second": outcome.tokens_per_second,
        }
        write_file(folder / MARKER, json.dumps(notes, indent=2, ensure_ascii=False) + "\n")
        for logs in sorted(work.glob("*/logs")):
            shutil.copytree(logs, folder / "logs" / logs.parent.name)
    shutil.rmtree(work, ignore_errors=True)
