"""One trial of a comparison: run it, resume it, and read its result.

A trial is one run of the table `[compare]` with one seed on one part of the text: the recipe with another method, plan
and seed. Until it is finished, its models and scores are in `NAME.work`; then its folder has

    curve.json              the scores on held-out text during the last training
    cost.json               its machine, time and speed
    earlier_curve.json      the scores during the training before it, if there are two
    evidence_quality.json   how good its evidence was
    tasks/                  the scores on tasks, before, during and after training
    model/                  the trained model with its snapshots, if models are to be kept
"""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from relexify.errors import InputError, OutputError
from relexify.recipes.file.recipe import Recipe
from relexify.recipes.file.tasks import TaskEntry
from relexify.recipes.run import check_recipe_inputs, run_steps
from relexify.recipes.tasks import evaluate_entries, finished_scores
from relexify.reports import TaskScores, TrainingCost
from relexify.steps import RunContext, Step, snapshot_folder
from relexify.storage.documents import write_documents
from relexify.storage.files import is_written, write_file
from relexify.storage.json import read_json
from relexify.storage.notes import read_notes
from relexify.storage.runs.work import WorkFolder
from relexify.training.distributed import started_processes
from relexify.training.results.curve import EARLIER_CURVE_FILE, Curve
from relexify.training.results.result import TrainingResult
from relexify.version import __version__

__all__ = ["EvaluationSteps", "Trial", "TrialResult", "check_trial", "finished_trial", "run_trial"]

_CURVE, _COST, _EVIDENCE_QUALITY = "curve.json", "cost.json", "evidence_quality.json"
_TASKS, _MODEL = "tasks", "model"

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrialResult:
    """The result of a trial.

    Attributes:
        curve: The scores on held-out text during the last training.
        tasks: The scores on tasks, in the order of training.
        earlier: The curve of the training before the last one, if there are two.
        cost: Machine, time and speed of the last training; None if the file was removed.
        evidence_quality: How good its evidence was, see `StepComparison.evidence_quality`.
    """

    curve: Curve
    tasks: tuple[TaskScores, ...]
    earlier: Curve | None = None
    cost: TrainingCost | None = None
    evidence_quality: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class EvaluationSteps:
    """When the model of a trial is evaluated on tasks.

    Attributes:
        steps_before: Number of optimiser steps of the trainings before the last one.
        steps: Optimiser steps, counted over all trainings, in their order; None for the end, whichever step that is.
    """

    steps_before: int
    steps: tuple[int | None, ...]

    @property
    def snapshots(self) -> tuple[int, ...]:
        """The optimiser steps of the last training whose models are evaluated, besides the end."""
        return tuple(step - self.steps_before for step in self.steps if step is not None and step > self.steps_before)

    def reached(self, curve: Curve) -> list[int | None]:
        """Return the steps that a training reached; it may have stopped early."""
        return [step for step in self.steps if step is None or step <= self.steps_before + curve.last.step]

    def trained(self, curve: Curve) -> list[int | None]:
        """Return the steps that the last training reached after its start."""
        return [step for step in self.reached(curve) if step is None or step > self.steps_before]


@dataclass(frozen=True)
class Trial:
    """One run of a comparison, with one seed, on one part of the text.

    Attributes:
        run: The name of the run.
        title: Its name in logs.
        plan: The plan of its last training, for reports.
        context: The run with the options of the variant.
        steps: The steps of its recipe.
        tasks: What it is evaluated on.
        evaluation_steps: When it is evaluated.
        languages: The languages of its last model, the source model's first, if there are several.
        work: Its unfinished work, and the folder for its result.
        keep_model: Whether to keep the trained model.
    """

    run: str
    title: str
    plan: str
    context: RunContext
    steps: tuple[Step[Any, Any], ...]
    tasks: tuple[TaskEntry, ...]
    evaluation_steps: EvaluationSteps
    languages: tuple[str, ...]
    work: WorkFolder
    keep_model: bool

    @property
    def folder(self) -> Path:
        """The folder for its result."""
        return self.work.output

    def is_trained(self) -> bool:
        """Whether its training need not be repeated: its model was kept, or has all scores on tasks."""
        if not self.work.is_finished():
            return False
        curve = _load_curve(self.folder / _CURVE, "training again")
        if curve is None:
            return False
        if is_written(self.folder / _MODEL):
            return True  # missing scores can still be measured
        return not any(self.missing(moment, self.folder / _TASKS) for moment in self.evaluation_steps.trained(curve))

    def missing(self, moment: int | None, folder: Path) -> bool:
        """Whether scores on tasks at a moment are not in a folder yet."""
        return None in finished_scores(self.tasks, moment, folder)


def check_trial(trial: Trial, recipe: Recipe) -> None:
    """Validate, before any work, everything that could stop a trial in the middle.

    Args:
        trial: The trial.
        recipe: The recipe, whose inputs must not be replaced.

    Raises:
        InputError: A step is impossible, or an older result or unfinished work is in the way.
        OutputError: An older result cannot be replaced.
    """
    if trial.is_trained():
        return
    reason = ""
    if trial.work.is_finished() and _load_curve(trial.folder / _CURVE, "training again") is not None:
        reason = (
            "was finished without these tasks, or another version of relexify evaluated them differently, and its "
            "model was not kept: leave the tasks as they were, "
        )
    elif made_by := trial.work.made_by_others():
        reason = f"was made by {made_by}: choose another output, "
    elif not trial.work.is_finished() and trial.folder.exists():
        reason = "belongs to another recipe, other texts or another model: choose another output, "
    if reason and not trial.work.overwrite:
        raise InputError(f"{trial.folder} {reason}or run it again with `overwrite`")
    check_recipe_inputs(recipe, trial.folder)
    trial.work.check()
    trial.work.check_claim()
    for step in trial.steps:
        step.check(trial.context.tables[step.table], trial.context)


def finished_trial(trial: Trial) -> TrialResult | None:
    """Return the result of a trial that an earlier call finished, and remove what is not to be kept."""
    if not trial.work.is_finished():
        if made_by := trial.work.made_by_others():
            logger.warning("%s is left out: it was made by %s", trial.folder, made_by)
        return None
    curve = _load_curve(trial.folder / _CURVE, "training again")
    if curve is None:
        return None
    scores = [
        found
        for moment in trial.evaluation_steps.reached(curve)
        for found in finished_scores(trial.tasks, moment, trial.folder / _TASKS)
    ]
    if None in scores:
        return None
    version = read_notes(trial.folder).get("version")
    if version != __version__:
        logger.warning(
            "%s was made by relexify %s, and this is %s: remove it to run it again",
            trial.folder,
            version or "of an unknown version",
            __version__,
        )
    trial.work.clear()
    if not trial.keep_model:
        shutil.rmtree(trial.folder / _MODEL, ignore_errors=True)
    earlier = None
    if sum(step.training is not None for step in trial.steps) > 1:
        earlier = _load_curve(trial.folder / EARLIER_CURVE_FILE, "tables leave out the first training")
    cost = read_json(trial.folder / _COST)
    return TrialResult(
        curve,
        tuple(each for each in scores if each is not None),
        earlier,
        None if cost is None else TrainingCost(**cost),
        read_json(trial.folder / _EVIDENCE_QUALITY) or {},
    )


def run_trial(trial: Trial) -> TrialResult:
    """Run all steps of a trial, and evaluate its models, except what an earlier call finished."""
    logger.info("%s", trial.title)
    work, is_trained = trial.work, trial.is_trained()
    tasks = work.path / _TASKS
    processes = started_processes()
    with work.claim() if processes.is_main_process else nullcontext():
        if is_trained and processes.is_main_process and (trial.folder / _TASKS).exists():
            shutil.copytree(trial.folder / _TASKS, tasks, dirs_exist_ok=True)
        processes.wait_for_everyone()
        _evaluate_untrained(trial, tasks)
        trainings: list[TrainingResult] = []
        if is_trained:
            model, curve = trial.folder / _MODEL, Curve.load(trial.folder / _CURVE)
        else:
            model = Path(run_steps(trial.steps, trial.context, work.path))
            trainings = [
                step.training.load(work.path / step.table) for step in trial.steps if step.training is not None
            ]
            curve = trainings[-1].curve
        for moment in trial.evaluation_steps.trained(curve):
            written = model if moment is None else snapshot_folder(model, moment - trial.evaluation_steps.steps_before)
            evaluate_entries(written, trial.tasks, moment, tasks, device=trial.context.device)
        processes.wait_for_everyone()
        if processes.is_main_process:
            with work.finish({"version": __version__}) as folder:
                if is_trained:
                    shutil.copytree(trial.folder, folder, dirs_exist_ok=True)
                else:
                    _save_training(trial, model, trainings, folder)
                if tasks.exists():
                    shutil.copytree(tasks, folder / _TASKS, dirs_exist_ok=True)
    processes.wait_for_everyone()
    result = finished_trial(trial)
    if result is None:
        raise OutputError(f"the results in {trial.folder} were removed while it ran: run the command again")
    return result


def _evaluate_untrained(trial: Trial, folder: Path) -> None:
    """Evaluate the models before the first training and before the last one, if that is requested."""
    trainings = [number for number, step in enumerate(trial.steps) if step.training is not None]
    for moment, number in ((0, trainings[0]), (trial.evaluation_steps.steps_before, trainings[-1])):
        if moment in trial.evaluation_steps.steps and trial.missing(moment, folder):
            model = run_steps(trial.steps[:number], trial.context, trial.work.path)
            # Each model has one language before the two are joined: the source model has the first one.
            by_language = dict(zip(trial.languages, (trial.context.source_model, model), strict=False))
            models = by_language or Path(model)
            evaluate_entries(models, trial.tasks, moment, folder, device=trial.context.device)


def _save_training(trial: Trial, model: Path, trainings: Sequence[TrainingResult], folder: Path) -> None:
    """Save curves, the cost of the last training, the quality of the evidence, and the model if it is to be kept."""
    *earlier, last = trainings
    last.curve.save(folder / _CURVE)
    machine = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    cost = TrainingCost(machine, None if last.resumed else last.seconds, last.tokens_per_second)
    write_file(folder / _COST, json.dumps(asdict(cost), indent=1) + "\n")
    quality: dict[str, float] = {}
    for step in trial.steps:
        quality |= step.comparison.evidence_quality(trial.work.path / step.table)
    write_file(folder / _EVIDENCE_QUALITY, json.dumps(quality) + "\n")
    if earlier:
        earlier[-1].curve.save(folder / EARLIER_CURVE_FILE)
    if trial.keep_model:
        shutil.copytree(model, folder / _MODEL)
        write_documents(folder / _MODEL)


def _load_curve(path: Path, otherwise: str) -> Curve | None:
    """Return a curve; if it cannot be read, warn about what is done without it."""
    try:
        return Curve.load(path)
    except InputError as error:
        logger.warning("%s cannot be read; %s (%s)", path, otherwise, error)
        return None
