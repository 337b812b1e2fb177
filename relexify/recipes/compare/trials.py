"""One trial of a comparison: run it, resume it, and read its result.

A trial is one run of the table `[compare]` with one seed on one part of the text: the recipe with another method, plan
and seed. Until it is finished, its models and scores lie in `NAME.work`; then its folder has

    curve.json        the scores on held-out text during the last training
    cost.json         its machine, time and speed
    first_step.json   those of the training before it, if there are two
    tasks/            the scores on tasks, before training and after it
    model/            the trained model, if models are to be kept
"""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState

from relexify.errors import InputError, OutputError
from relexify.recipes.run import run_steps
from relexify.recipes.tasks import Moment, TaskEntry, evaluate_entry, finished_scores
from relexify.reports import TaskScores, TrainingCost
from relexify.steps import RunContext, Step
from relexify.storage.files import check_inputs, is_written, write_file
from relexify.storage.work import WorkFolder, read_json
from relexify.training.curve import Curve

__all__ = ["Trial", "TrialResult", "check_trial", "finished_trial", "run_trial"]

_CURVE, _EARLIER_CURVE, _COST, _TASKS, _MODEL = "curve.json", "first_step.json", "cost.json", "tasks", "model"

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrialResult:
    """The result of a trial.

    Attributes:
        curve: The scores on held-out text during the last training.
        tasks: The scores on tasks, before training and after it.
        earlier: The curve of the training before the last one, if there are two.
        cost: Machine, time and speed of the last training; None if the file was removed.
    """

    curve: Curve
    tasks: tuple[TaskScores, ...]
    earlier: Curve | None = None
    cost: TrainingCost | None = None


@dataclass(frozen=True)
class Trial:
    """One run of a comparison, with one seed, on one part of the text.

    Attributes:
        run: The name of the run.
        title: For logs.
        plan: The plan of its last training, for reports.
        context: The run with the options of the variant.
        steps: Its steps.
        tasks: What it is evaluated on.
        moments: When it is evaluated.
        work: Its unfinished work, and the folder for its result.
        keep_model: Whether to keep the trained model.
    """

    run: str
    title: str
    plan: str
    context: RunContext
    steps: tuple[Step, ...]
    tasks: tuple[TaskEntry, ...]
    moments: tuple[Moment, ...]
    work: WorkFolder
    keep_model: bool

    @property
    def folder(self) -> Path:
        """The folder for its result."""
        return self.work.output

    def is_trained(self) -> bool:
        """Whether its result lacks at most scores on tasks, which the model that was kept can still be evaluated on."""
        if not self.work.is_finished() or _load_curve(self.folder / _CURVE, "training again") is None:
            return False
        return is_written(self.folder / _MODEL) or not self.missing("end", self.folder / _TASKS)

    def missing(self, moment: Moment, folder: Path) -> list[TaskEntry]:
        """Return the tasks whose scores at a moment are not in a folder yet."""
        if moment not in self.moments:
            return []
        return [entry for entry in self.tasks if finished_scores(entry, moment, folder) is None]


def check_trial(trial: Trial, inputs: Sequence[Any]) -> None:
    """Reject before any work what would stop a trial in the middle.

    Args:
        trial: The trial.
        inputs: Everything that its recipe reads, which must not be replaced.

    Raises:
        InputError: A step is impossible, or an older result or unfinished work is in the way.
        OutputError: An older result cannot be replaced.
    """
    if trial.is_trained():
        return
    reason = ""
    if trial.work.is_finished() and trial.missing("end", trial.folder / _TASKS):
        reason = "was finished without these tasks, and its model was not kept: leave the tasks as they were, "
    elif not trial.work.is_finished() and trial.folder.exists():
        reason = "belongs to another recipe, other texts or another model: choose another output, "
    if reason and not trial.work.overwrite:
        raise InputError(f"{trial.folder} {reason}or pass --overwrite to run it again")
    check_inputs(trial.folder, *inputs)
    trial.work.check()
    trial.work.check_claim()
    for step in trial.steps:
        step.check(trial.context.tables[step.table], trial.context)


def finished_trial(trial: Trial) -> TrialResult | None:
    """Return the result of a trial that an earlier call finished, and remove what is not to be kept."""
    if not trial.work.is_finished():
        return None
    curve = _load_curve(trial.folder / _CURVE, "training again")
    scores = [
        finished_scores(entry, moment, trial.folder / _TASKS) for moment in trial.moments for entry in trial.tasks
    ]
    if curve is None or None in scores:
        return None
    trial.work.clear()
    if not trial.keep_model:
        shutil.rmtree(trial.folder / _MODEL, ignore_errors=True)
    earlier = None
    if sum(step.training is not None for step in trial.steps) > 1:
        earlier = _load_curve(trial.folder / _EARLIER_CURVE, "tables leave out the first training")
    cost = read_json(trial.folder / _COST)
    return TrialResult(
        curve,
        tuple(each for each in scores if each is not None),
        earlier,
        None if cost is None else TrainingCost(**cost),
    )


def run_trial(trial: Trial) -> TrialResult:
    """Transfer, evaluate, train and evaluate, except what an earlier call finished."""
    logger.info("%s", trial.title)
    context, work, is_trained = trial.context, trial.work, trial.is_trained()
    tasks, device = work.path / _TASKS, context.device
    processes = PartialState(cpu=not torch.cuda.is_available())
    with work.claim() if processes.is_main_process else nullcontext():
        if is_trained and processes.is_main_process and (trial.folder / _TASKS).exists():
            shutil.copytree(trial.folder / _TASKS, tasks, dirs_exist_ok=True)
        processes.wait_for_everyone()
        if trial.missing("start", tasks):
            untrained = list(takewhile(lambda step: step.training is None, trial.steps))
            start = Path(run_steps(untrained, context, work.path))
            for entry in trial.tasks:
                evaluate_entry(start, entry, "start", tasks, device=device)
        model = trial.folder / _MODEL if is_trained else Path(run_steps(trial.steps, context, work.path))
        for entry in trial.tasks:
            evaluate_entry(model, entry, "end", tasks, device=device)
        processes.wait_for_everyone()
        if processes.is_main_process:
            with work.finish() as folder:
                if is_trained:
                    shutil.copytree(trial.folder, folder, dirs_exist_ok=True)
                else:
                    _save_training(trial, model, folder)
                if tasks.exists():
                    shutil.copytree(tasks, folder / _TASKS, dirs_exist_ok=True)
    processes.wait_for_everyone()
    result = finished_trial(trial)
    if result is None:
        raise OutputError(f"the results in {trial.folder} were removed while it ran: run the command again")
    return result


def _save_training(trial: Trial, model: Path, folder: Path) -> None:
    """Save the curves of the training steps, the cost of the last, and the model if it is to be kept."""
    *earlier, last = [
        step.training.load(trial.work.path / step.table) for step in trial.steps if step.training is not None
    ]
    last.curve.save(folder / _CURVE)
    machine = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    cost = TrainingCost(machine, last.seconds, last.tokens_per_second)
    write_file(folder / _COST, json.dumps(asdict(cost), indent=1) + "\n")
    if earlier:
        earlier[-1].curve.save(folder / _EARLIER_CURVE)
    if trial.keep_model:
        shutil.copytree(model, folder / _MODEL)


def _load_curve(path: Path, otherwise: str) -> Curve | None:
    """Return a curve; if it cannot be read, warn about what is done without it."""
    try:
        return Curve.load(path)
    except InputError as error:
        logger.warning("%s cannot be read; %s (%s).", path, otherwise, error)
        return None
