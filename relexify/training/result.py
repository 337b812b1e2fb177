"""The result of a training, and how it is found again in the folder of the trained model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from relexify.storage.notes import finished_run, output_notes, read_entry
from relexify.storage.work import WorkFolder
from relexify.training.curve import Curve
from relexify.training.options import Training
from relexify.training.plan import plan_stages

__all__ = ["CURVE_FILE", "TrainingResult", "check_training_output", "load_result", "selected_step"]

CURVE_FILE = "training.json"
"""The curve, in the folder of a trained model."""


@dataclass(frozen=True)
class TrainingResult:
    """The result of a training.

    Attributes:
        output: The folder with the trained model.
        curve: Scores on held-out text.
        selected: The step whose parameters were kept: the last, or the best one.
        tokens: Number of tokens seen.
        seconds: Wall-clock time of the call that finished it, with loading, compilation, scoring and saving.
        tokens_per_second: Speed of training alone, in that call; None if it was too short to measure it.
        resumed: Whether that call continued what earlier ones had begun, whose time is not known.
    """

    output: Path
    curve: Curve
    selected: int
    tokens: int
    seconds: float
    tokens_per_second: float | None
    resumed: bool = False


def check_training_output(work: WorkFolder, training: Training) -> None:
    """Validate, before model and text are read, that a training can write its output.

    The output may be the result of this very training if its number of steps, length and seed are the same; whether it
    is depends on model and text too.

    Args:
        work: The work folder of the training.
        training: Its options, validated.

    Raises:
        OutputError: The output exists and may not be replaced, or cannot be written.
    """
    before = output_notes(work.output).get("training") or {}
    planned = (sum(stage.steps for stage in plan_stages(training)), training.length, training.seed)
    same = planned == tuple(before.get(name) for name in ("steps", "length", "seed"))
    if work.overwrite or not same or finished_run(work.output, "training") is None:
        work.check()


def load_result(output: Path) -> TrainingResult:
    """Return the result of an earlier training, with the time and speed of the call that finished it.

    Raises:
        InputError: The folder's curve, or its note of the training, is missing or damaged.
    """
    curve, notes = Curve.load(output / CURVE_FILE), read_entry(output, "training")
    return TrainingResult(
        output,
        curve,
        selected=notes["selected_step"],
        tokens=notes["tokens_seen"],
        seconds=notes["seconds"],
        tokens_per_second=notes["tokens_per_second"],
        resumed=notes.get("resumed", False),
    )


def selected_step(notes: Mapping[str, Any], curve: Curve) -> int:
    """Return the step whose parameters a trained model has, by its `relexify.json`; without a note, the last one."""
    step: int = (notes.get("training") or {}).get("selected_step", curve.last.step)
    return step
