"""The result of a training, and how to load it from the folder of the trained model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from relexify.storage.notes import read_entry
from relexify.training.results.curve import Curve

__all__ = ["CURVE_FILE", "TrainingResult", "load_result", "new_text_steps", "selected_step"]

CURVE_FILE = "training.json"
"""The file with the curve, in the folder of a trained model."""


@dataclass(frozen=True)
class TrainingResult:
    """The result of a training.

    Attributes:
        output: The folder with the trained model.
        curve: Scores on held-out text.
        selected: The step whose parameters were kept: the last step or the best one.
        tokens: Number of tokens seen.
        seconds: Wall-clock time of the call that finished the training, with loading, compilation, scoring and saving.
        tokens_per_second: Speed of that call without scoring; None if it was too short to be measured.
        resumed: Whether that call resumed a training; the time of earlier calls is unknown.
        new_text_steps: Number of steps before any text is seen for the second time; 0 if unknown.
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
        InputError: The folder's curve, or the entry `training` of its notes, is missing or damaged.
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
    """Return the number of steps before any text was seen twice, as noted in `relexify.json`; 0 if unknown."""
    steps: int = (notes.get("training") or {}).get("new_text_steps", 0)
    return steps


def selected_step(notes: Mapping[str, Any], curve: Curve) -> int:
    """Return the step whose parameters were kept, as noted in `relexify.json`; without a note, the last step."""
    step: int = (notes.get("training") or {}).get("selected_step", curve.last.step)
    return step
