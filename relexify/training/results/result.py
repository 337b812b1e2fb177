"""The result of a training, and how it is found again in the folder of the trained model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from relexify.storage.notes import read_entry
from relexify.training.results.curve import Curve

__all__ = ["CURVE_FILE", "TrainingResult", "load_result", "new_text_steps", "selected_step"]

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
        new_text_steps: Steps before any text is seen for the second time; 0 if it is not known.
    """

    output: Path
    curve: Curve
    selected: int
    tokens: int
    seconds: float
    tokens_per_second: float | None
    resumed: bool = False
    new_text_steps: int = 0


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
        new_text_steps=notes.get("new_text_steps", 0),
    )


def new_text_steps(notes: Mapping[str, Any]) -> int:
    """Return the steps of a training before any text was seen twice, by its `relexify.json`; 0 if it is not known."""
    steps: int = (notes.get("training") or {}).get("new_text_steps", 0)
    return steps


def selected_step(notes: Mapping[str, Any], curve: Curve) -> int:
    """Return the step whose parameters a trained model has, by its `relexify.json`; without a note, the last one."""
    step: int = (notes.get("training") or {}).get("selected_step", curve.last.step)
    return step
