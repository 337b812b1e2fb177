"""Compare initialisations: train variants of one recipe on the same text in the same order.

A trial is one run of the table `[compare]` with one seed on one part of the text: the recipe with another method, plan
and seed, run in `OUTPUT/runs/NAME`. Its curve and its scores on tasks stay there; its models are removed unless they
are to be kept.
"""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from relexify.errors import InputError, OutputError
from relexify.recipes.compare.options import Run
from relexify.recipes.recipe import Recipe, recipe_text
from relexify.recipes.run import inputs_of, run_identity, run_step, run_steps
from relexify.recipes.tasks import Moment, TaskEntry, check_tasks, evaluate_entry, finished_scores
from relexify.reports import Comparison, TaskScores, write_report
from relexify.steps import STEPS, RunContext, Step
from relexify.storage.files import MARKER, check_inputs, check_output, check_written, write_file
from relexify.storage.fingerprint import describe
from relexify.storage.work import RUN_FILE, read_json
from relexify.systems.bilingual.recipe import FIRST_STEP_FILE
from relexify.systems.transfer.checks import with_method
from relexify.text import HELD_OUT_EVERY, Corpus
from relexify.training.curve import Curve
from relexify.training.result import CURVE_FILE

__all__ = ["run_comparison"]

_CURVE, _TASKS, _MODEL, _WORK = "curve.json", "tasks", "model", "work"
_RECIPE = "recipe.toml"

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrialResult:
    """The result of a trial.

    Attributes:
        curve: The scores on held-out text during the last training.
        tasks: The scores on tasks, before training and after it.
        earlier: The curve of the training before the last one, if there are two.
    """

    curve: Curve
    tasks: tuple[TaskScores, ...]
    earlier: Curve | None = None


@dataclass(frozen=True)
class Trial:
    """One run of a comparison, with one seed, on one part of the text.

    Attributes:
        run: The variant of the recipe.
        title: For logs.
        folder: For its results.
        context: The run with the options of the variant.
        steps: Its steps.
        tasks: What it is evaluated on.
        keep_model: Whether to keep the trained model.
    """

    run: Run
    title: str
    folder: Path
    context: RunContext
    steps: tuple[Step, ...]
    tasks: tuple[TaskEntry, ...]
    keep_model: bool

    @property
    def identity(self) -> Any:
        """Everything that its curve depends on, as json gives it back."""
        return json.loads(json.dumps(describe(run_identity(self.context))))

    @property
    def evaluations(self) -> list[tuple[TaskEntry, Moment]]:
        """The tasks and when they are evaluated; a model of two languages exists at the end only."""
        moments: tuple[Moment, ...] = ("start", "end") if self.steps[-1].table == "training" else ("end",)
        return [(entry, moment) for moment in moments for entry in self.tasks]

    def missing(self, moment: Moment) -> list[TaskEntry]:
        """Return the tasks that are still to be evaluated at a moment."""
        folder = self.folder / _TASKS
        pending = [entry for entry, when in self.evaluations if when == moment]
        return [entry for entry in pending if finished_scores(entry, moment, folder) is None]


def run_comparison(recipe: Recipe, *, device: str = "cpu", overwrite: bool = False) -> list[Comparison]:
    """Train several initialisations on the same text in the same order, and compare them.

    Runs are evaluated on the tasks of the recipe before training and after it; with `[bilingual]`, only after it.
    Finished trials are kept in the output folder, and an interrupted one resumes from its last checkpoint.

    Args:
        recipe: With `[transfer]`, `[training]` and `[compare]`, and perhaps `[bilingual]`.
        device: Where to search; training uses what there is.
        overwrite: Repeat trials in the output folder that belong to another recipe.

    Returns:
        One comparison for each subsample of the text, or a single one.

    Raises:
        InputError: The recipe lacks a table, a task is impossible, or the output belongs to another recipe.
    """
    training = recipe.tables.get("training")
    if recipe.compare is None or "transfer" not in recipe.tables or training is None:
        raise InputError(f"{recipe.source} cannot be compared: it needs [transfer], [training] and [compare]")
    if training.stages:
        raise InputError(
            f"{recipe.source} has [[training.stages]] and [compare]: runs have plans of their own, leave out one"
        )
    check_tasks(recipe.tasks, recipe.model, recipe.source)
    trials = {size: _trials(recipe, size, device) for size in recipe.compare.subsamples or (None,)}
    _check_trials(recipe, [trial for each in trials.values() for trial in each], overwrite)
    write_file(recipe.output / MARKER, "{}\n")
    write_file(recipe.output / _RECIPE, recipe_text(recipe))
    comparisons = []
    for size, each in trials.items():
        folder = recipe.output if size is None else recipe.output / _size_name(size)
        finished = {trial.folder: _finished(trial) for trial in each}
        for trial in each:
            if finished[trial.folder] is None:
                finished[trial.folder] = _run_trial(trial)
                write_report(_comparison(recipe, size, each, finished), folder)
        comparisons.append(_comparison(recipe, size, each, finished))
        write_report(comparisons[-1], folder)
    return comparisons


def _trials(recipe: Recipe, size: int | None, device: str) -> list[Trial]:
    """Return all runs with all seeds, on about that many bytes of the text, or on all of it."""
    compare = recipe.compare
    if compare is None:
        return []
    corpus = Corpus.open(recipe.corpus)
    if recipe.held_out is not None:
        held_out = Corpus.open(recipe.held_out)
    else:  # the same held-out text for every size
        corpus, held_out = corpus.split(HELD_OUT_EVERY)
    part = corpus if size is None else corpus.subsample(size)
    trials = []
    for seed in compare.seeds:
        for run in compare.runs:
            name = f"{run.name}-seed{seed}" if size is None else f"{_size_name(size)}-{run.name}-seed{seed}"
            title = f"{run.name}, seed {seed}" + (f", {_size_name(size)}" if size else "")
            folder = recipe.output / "runs" / name
            tables = _variant(recipe.tables, run, seed, part, held_out)
            context = RunContext(recipe.model, part, held_out, tables, device)
            trials.append(Trial(run, title, folder, context, tuple(recipe.steps), recipe.tasks, compare.keep_models))
    return trials


def _variant(tables: Mapping[str, Any], run: Run, seed: int, corpus: Corpus, held_out: Corpus) -> dict[str, Any]:
    """Return the tables of a recipe with the method, plan and seed of a run."""
    changed = dict(tables)
    transfer = with_method(tables["transfer"], run.method)
    changed["transfer"] = replace(transfer, seed=seed, corpus=corpus, held_out=held_out)
    changed["training"] = replace(tables["training"], seed=seed)
    if run.plan is not None:
        changed["training"] = replace(changed["training"], plan=run.plan, stages=())
    if "bilingual" in tables:  # all runs are trained as [training] says, then in both languages
        both = tables["bilingual"]
        changed["bilingual"] = replace(both, training=replace(both.training, seed=seed))
    return changed


def _check_trials(recipe: Recipe, trials: Sequence[Trial], overwrite: bool) -> None:
    """Reject before any work what would stop a comparison in the middle, and remove trials that may be replaced."""
    if recipe.output.exists() and any(recipe.output.iterdir()) and not (recipe.output / MARKER).exists():
        raise OutputError(f"{recipe.output} was not written by relexify: choose another output, or remove it")
    for trial in trials:
        if not (trial.folder / _CURVE).exists():
            for step in trial.steps:
                step.check(trial.context.tables[step.table], trial.context)
    for trial in trials:
        reason = ""
        if (trial.folder / RUN_FILE).exists() and read_json(trial.folder / RUN_FILE) != trial.identity:
            reason = "belongs to another recipe, other texts or another model: choose another output, "
        elif _curve(trial) is not None and trial.missing("end") and not (trial.folder / _MODEL / MARKER).exists():
            reason = "was finished without these tasks, and its model was not kept: leave the tasks as they were, "
        if reason and not overwrite:
            raise InputError(f"{trial.folder} {reason}or pass --overwrite to run it again")
        if reason:
            check_inputs(trial.folder, *inputs_of(recipe))
            _check_removable(trial.folder)
            shutil.rmtree(trial.folder)


def _check_removable(folder: Path) -> None:
    """Make sure that the folder of a trial contains only what relexify wrote."""
    names = (_CURVE, RUN_FILE, _TASKS, _MODEL, f"{_MODEL}.training", _WORK, FIRST_STEP_FILE)
    check_written(folder, names, deep=False)
    if (folder / _WORK).is_dir():
        check_written(folder / _WORK, [name for table in STEPS for name in (table, f"{table}.training")], deep=False)
    for model in (folder / _MODEL, *(folder / _WORK / table for table in STEPS)):
        if model.is_dir():
            check_output(model, overwrite=True)


def _finished(trial: Trial) -> TrialResult | None:
    """Return the result of a trial that an earlier call finished."""
    curve = _curve(trial)
    scores = [finished_scores(entry, moment, trial.folder / _TASKS) for entry, moment in trial.evaluations]
    if curve is None or None in scores:
        return None
    _clear(trial)
    return TrialResult(curve, tuple(each for each in scores if each is not None), _earlier(trial))


def _run_trial(trial: Trial) -> TrialResult:
    """Transfer, evaluate, train and evaluate, except what an earlier call finished."""
    logger.info("%s", trial.title)
    write_file(trial.folder / RUN_FILE, json.dumps(trial.identity, indent=1) + "\n")
    work, model, context = trial.folder / _WORK, trial.folder / _MODEL, trial.context
    *first, last = trial.steps
    if _curve(trial) is None or trial.missing("start"):
        start = run_steps([step for step in first if step.order < STEPS["training"].order], context, work)
        for entry in trial.missing("start"):
            evaluate_entry(Path(start), entry, "start", trial.folder / _TASKS, device=context.device)
    if _curve(trial) is None:
        run_step(last, context, run_steps(first, context, work), model)
        if (model / FIRST_STEP_FILE).exists():
            Curve.load(model / FIRST_STEP_FILE).save(trial.folder / FIRST_STEP_FILE)
        Curve.load(model / CURVE_FILE).save(trial.folder / _CURVE)
    for entry in trial.missing("end"):
        evaluate_entry(model, entry, "end", trial.folder / _TASKS, device=context.device)
    result = _finished(trial)
    if result is None:
        raise OutputError(f"the results in {trial.folder} were removed while it ran: run the command again")
    return result


def _clear(trial: Trial) -> None:
    """Remove the models of a finished trial that are not to be kept."""
    shutil.rmtree(trial.folder / _WORK, ignore_errors=True)
    if not trial.keep_model:
        shutil.rmtree(trial.folder / _MODEL, ignore_errors=True)


def _curve(trial: Trial) -> Curve | None:
    """Return the curve of a trial that an earlier call trained."""
    path = trial.folder / _CURVE
    if not path.exists():
        return None
    try:
        return Curve.load(path)
    except InputError as error:
        logger.warning("%s is corrupt; training again (%s).", path, error)
        path.unlink()
        return None


def _earlier(trial: Trial) -> Curve | None:
    """Return the curve of the training before the last one, if it can be read."""
    path = trial.folder / FIRST_STEP_FILE
    if trial.steps[-1].table == "training" or "training" not in trial.context.tables:
        return None
    try:
        return Curve.load(path)
    except InputError as error:
        logger.warning("%s cannot be read, so tables leave out the first training (%s).", path, error)
        return None


def _comparison(
    recipe: Recipe, size: int | None, trials: Sequence[Trial], finished: Mapping[Path, TrialResult | None]
) -> Comparison:
    """Return the finished trials as one comparison."""
    title = recipe.title if size is None else f"{recipe.title}, {_size_name(size)} of text"
    curves: dict[str, tuple[Curve, ...]] = {}
    tasks: dict[str, tuple[TaskScores, ...]] = {}
    earlier: dict[str, tuple[Curve, ...]] = {}
    for trial in trials:
        result, name = finished[trial.folder], trial.run.name
        if result is not None:
            curves[name] = (*curves.get(name, ()), result.curve)
            if result.tasks:
                tasks[name] = (*tasks.get(name, ()), *result.tasks)
            if result.earlier is not None:
                earlier[name] = (*earlier.get(name, ()), result.earlier)
    options = recipe.tables[recipe.steps[-1].table]
    training = getattr(options, "training", options)  # nested in the options of a step that does more than train
    machine = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    return Comparison(
        title,
        curves,
        training.tokens_per_step,
        {"machine": machine, "model": recipe.model},
        tasks,
        keeps_best=training.selects_best,
        earlier=earlier,
    )


def _size_name(size: int) -> str:
    return f"{size / 2**20:g}MiB"
