"""A whole training: text packed once, stages one after the other, a model to load at the end.

Beside the output lies `OUTPUT.training` until the work is done: checkpoints, results of stages, and logs. The same
command goes on from there, whenever it was stopped, and ends with the same bits.
"""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState

from relexify.artifacts import MARKER, check_output, write_file, write_folder
from relexify.errors import InputError
from relexify.progress import Progress, silent
from relexify.training.checkpoints import RUN_FILE, claim_folder, find_checkpoint, only_one
from relexify.training.curve import Curve, Measurement
from relexify.training.plan import Stage, Training, plan_stages
from relexify.training.stage_run import StageResult, run_stage
from relexify.training.subject import Subject, notes_of, one_language

__all__ = ["CURVE_FILE", "TrainingResult", "finished_training", "is_trained", "run_training", "train"]

CURVE_FILE = "training.json"
_RESULT = "result"

logger = logging.getLogger(__name__)


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


def train(
    model: str | Path,
    output: str | Path,
    corpus: Any,
    training: Training | None = None,
    *,
    held_out: Any = None,
    overwrite: bool = False,
    progress: Progress = silent,
) -> TrainingResult:
    """Train a model on, measure it along the way, and write it to a folder.

    Args:
        model: A folder, a Hub name, or `smollm2-135m`; a decoder or a masked language model.
        output: The folder to write; checkpoints lie in `OUTPUT.training` until it is written.
        corpus: Text to learn from, whatever `Corpus.open` takes.
        training: How.
        held_out: Text to measure on; where none is given, one line in 100 of the corpus is kept aside. What it shares
            with the corpus is not learnt from.
        overwrite: Replace the output, and checkpoints of another training that lie in its way.
        progress: Told about everything that takes long.

    Raises:
        InputError: Something about model, text or options does not fit, or checkpoints are another run's or damaged.
        VocabularyError: The tokenizer is not the model's.
        TrainingError: The loss is no longer a number, or the memory does not suffice.
        OutputError: A checkpoint or the result cannot be written.
    """
    processes = PartialState(cpu=not torch.cuda.is_available())
    return run_training(
        lambda plan: one_language(model, corpus, held_out, plan, processes, progress),
        output,
        training or Training(),
        processes,
        overwrite=overwrite,
        progress=progress,
    )


def run_training(
    prepare: Callable[[Training], Subject],
    output: str | Path,
    training: Training,
    processes: PartialState,
    *,
    overwrite: bool = False,
    progress: Progress = silent,
) -> TrainingResult:
    """Train whatever subject on, as `train` does with an ordinary model; raises what `train` raises.

    Args:
        prepare: Loads the model and its text, once it is known that the output can be written.
        output: The folder to write.
        training: How.
        processes: Those that train together.
        overwrite: Replace the output, and checkpoints of another training that lie in its way.
        progress: Told about everything that takes long.
    """
    begun, output = time.monotonic(), Path(output)
    stages = plan_stages(training)
    training = replace(training, steps=sum(stage.steps for stage in stages))
    earlier = None if overwrite else notes_of(output).get("training", {}).get("run")
    if earlier is None and processes.is_main_process:
        check_output(output, overwrite=overwrite)
    subject = prepare(training)
    run = _run_of(subject, training, stages)
    work = _work_of(output)
    if earlier == _digest(run):
        logger.info("%s is the result of this very training already", output)
        return _finished(output, time.monotonic() - begun)
    if processes.is_main_process:
        check_output(output, overwrite=overwrite)
        _claim(work, run, overwrite)
    processes.wait_for_everyone()
    with only_one(work) if processes.is_main_process else nullcontext():
        curve, chosen, speed = _run_stages(subject, stages, training, work, processes, progress)
        selected = chosen.step
        outcome = TrainingResult(output, curve, selected, curve.last.tokens, time.monotonic() - begun, speed)
        if processes.is_main_process:
            _finish(subject, chosen, work, outcome, training, run, overwrite)
        processes.wait_for_everyone()
    return outcome


@dataclass(frozen=True)
class _Chosen:
    """The model that is handed on: the step, and the folder of its stage; no folder for that before training."""

    step: int
    folder: Path | None


def _run_stages(
    subject: Subject,
    stages: tuple[Stage, ...],
    training: Training,
    work: Path,
    processes: PartialState,
    progress: Progress,
) -> tuple[Curve, _Chosen, float | None]:
    """Train all stages that no earlier call has finished: the curve, the model to hand on, tokens a second."""
    points: list[Measurement] = []
    learner, done, speed = subject.model, 0, None
    chosen: dict[int, _Chosen] = {0: _Chosen(0, None)}
    for place, stage in enumerate(stages):
        folder = work / _stage_name(stages, place)
        if not (folder / _RESULT).exists():
            if place:
                learner = subject.reload(work / _stage_name(stages, place - 1) / _RESULT)
            is_last = place == len(stages) - 1
            result = run_stage(
                learner, subject.text, stage, training, folder, first_step=done, is_last=is_last, progress=progress
            )
            speed = result.tokens_per_second or speed
            if processes.is_main_process:
                _keep(folder, result)
            processes.wait_for_everyone()
            del result
        points += Curve.load(folder / _RESULT / CURVE_FILE).points
        step = json.loads((folder / _RESULT / MARKER).read_text())["selected"]
        chosen[step] = last = _Chosen(step, folder / _RESULT)
        done += stage.steps
    curve = Curve.of(points)
    if not training.selects_best:
        return curve, last, speed
    best = min(chosen, key=lambda step: curve.at(step).bits_per_byte)
    if best == 0:
        logger.warning("training made the model worse on held-out text: it is kept as it was before")
    return curve, chosen[best], speed


def _stage_name(stages: tuple[Stage, ...], place: int) -> str:
    return f"{place + 1}-{stages[place].name}"


def _work_of(output: Path) -> Path:
    return output.with_name(f"{output.name}.training")


def is_trained(output: str | Path) -> bool:
    """Whether a folder is the result of a training."""
    return "run" in notes_of(output).get("training", {})


def finished_training(output: Path) -> TrainingResult:
    """What an earlier training came to, in no time.

    Raises:
        InputError: The folder's curve is missing or damaged.
    """
    return _finished(output, 0.0)


def _finished(output: Path, seconds: float) -> TrainingResult:
    """What an earlier call came to, which may have been stopped while it was clearing up."""
    shutil.rmtree(_work_of(output), ignore_errors=True)
    curve, notes = Curve.load(output / CURVE_FILE), notes_of(output)["training"]
    return TrainingResult(
        output, curve, notes["selected_step"], notes["tokens_seen"], seconds, notes["tokens_per_second"]
    )


def _claim(work: Path, run: dict[str, Any], overwrite: bool) -> None:
    """Make sure that the folder for checkpoints is this run's."""
    try:
        claim_folder(work, run)
        for stage in sorted(work.glob("*/")) if overwrite else ():
            find_checkpoint(stage)  # where all are damaged, beginning anew is what was asked for
    except InputError as error:
        if not overwrite or not (work / RUN_FILE).exists():
            raise
        logger.warning("%s; it is removed", str(error).partition(";")[0])
        shutil.rmtree(work)
        claim_folder(work, run)


def _run_of(subject: Subject, training: Training, stages: tuple[Stage, ...]) -> dict[str, Any]:
    """All that the result depends on; not the devices, which may change when a run goes on."""
    names = (
        "batch", "length", "weight_decay", "beta1", "beta2", "epsilon", "clip", "masking", "seed", "micro_batch",
        "patience", "keep_best", "lookahead_steps", "lookahead_alpha",
    )  # fmt: skip
    return {
        **subject.identity,
        "stages": [asdict(stage) for stage in stages],
        **{name: getattr(training, name) for name in names},
        "precision": training.precision,
        "evaluate_every": (training.evaluate_every or max(1, training.steps // 20)) if training.selects_best else None,
    }


def _digest(run: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(run, sort_keys=True).encode()).hexdigest()


def _keep(folder: Path, result: StageResult) -> None:
    """Write a stage's result, and let go of its checkpoints."""
    with write_folder(folder / _RESULT, overwrite=True) as beside:
        result.model.save_pretrained(beside, state_dict=result.weights)
        result.curve.save(beside / CURVE_FILE)
        write_file(beside / MARKER, json.dumps({"selected": result.selected}) + "\n")
    for checkpoint in folder.glob("checkpoint-*"):
        shutil.rmtree(checkpoint, ignore_errors=True)


def _finish(
    subject: Subject,
    chosen: _Chosen,
    work: Path,
    outcome: TrainingResult,
    training: Training,
    run: dict[str, Any],
    overwrite: bool,
) -> None:
    """Write the trained model with all that is known about it; only then let go of the work."""
    trained = subject.reload(chosen.folder)
    with write_folder(outcome.output, overwrite=overwrite) as folder:
        subject.write(trained.to(subject.dtype), folder)
        outcome.curve.save(folder / CURVE_FILE)
        notes = dict(subject.notes)
        notes["training"] = {
            "run": _digest(run),
            **asdict(training),
            "selected_step": outcome.selected,
            "tokens_seen": outcome.tokens,
            "tokens_per_second": outcome.tokens_per_second,
        }
        write_file(folder / MARKER, json.dumps(notes, indent=2, ensure_ascii=False) + "\n")
        for logs in sorted(work.glob("*/logs")):
            shutil.copytree(logs, folder / "logs" / logs.parent.name)
    shutil.rmtree(work, ignore_errors=True)
