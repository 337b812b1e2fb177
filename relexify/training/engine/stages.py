"""The stages of a training, one after the other; those that an earlier call finished are kept."""

from __future__ import annotations

import json
import logging
import shutil
from dataclasses import dataclass
from pathlib import Path

from accelerate import PartialState

from relexify.storage.files import MARKER, write_file, write_folder
from relexify.training.curve import Curve, Measurement
from relexify.training.engine.stage import StageResult, run_stage
from relexify.training.job import TrainingJob
from relexify.training.plan import Stage, Training
from relexify.training.result import CURVE_FILE

__all__ = ["Chosen", "keep_stage", "run_stages"]

_RESULT = "result"

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Chosen:
    """The model that is handed on: the step, and the folder of its stage; no folder for that before training."""

    step: int
    folder: Path | None


def run_stages(
    subject: TrainingJob, stages: tuple[Stage, ...], training: Training, work: Path, processes: PartialState
) -> tuple[Curve, Chosen, float | None]:
    """Train all stages that no earlier call has finished: the curve, the model to hand on, tokens a second."""
    points: list[Measurement] = []
    learner, done, speed = subject.model, 0, None
    chosen: dict[int, Chosen] = {0: Chosen(0, None)}
    for place, stage in enumerate(stages):
        folder = work / _stage_name(stages, place)
        if not (folder / _RESULT).exists():
            if place:
                learner = subject.reload(work / _stage_name(stages, place - 1) / _RESULT)
            is_last = place == len(stages) - 1
            result = run_stage(learner, subject.data, stage, training, folder, first_step=done, is_last=is_last)
            speed = result.tokens_per_second or speed
            if processes.is_main_process:
                keep_stage(folder, result)
            processes.wait_for_everyone()
            del result
        points += Curve.load(folder / _RESULT / CURVE_FILE).points
        step = json.loads((folder / _RESULT / MARKER).read_text())["selected"]
        chosen[step] = last = Chosen(step, folder / _RESULT)
        done += stage.steps
    curve = Curve.of(points)
    if not training.selects_best:
        return curve, last, speed
    best = min(chosen, key=lambda step: curve.at(step).bits_per_byte)
    if best == 0:
        logger.warning("training made the model worse on held-out text: it is kept as it was before")
    return curve, chosen[best], speed


def keep_stage(folder: Path, result: StageResult) -> None:
    """Write a stage's result, and let go of its checkpoints."""
    with write_folder(folder / _RESULT, internal=True) as beside:
        result.model.save_pretrained(beside, state_dict=result.weights)
        result.curve.save(beside / CURVE_FILE)
        write_file(beside / MARKER, json.dumps({"selected": result.selected}) + "\n")
    for checkpoint in folder.glob("checkpoint-*"):
        shutil.rmtree(checkpoint, ignore_errors=True)


def _stage_name(stages: tuple[Stage, ...], place: int) -> str:
    return f"{place + 1}-{stages[place].name}"
