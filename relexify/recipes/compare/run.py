"""Compare runs: train variants of one recipe on the same text in the same order, and report on them.

Every trial has a folder in `OUTPUT/runs`; the report lies in `OUTPUT`, or in one folder there for each subsample.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from relexify.errors import InputError, OutputError
from relexify.recipes.compare.options import CompareOptions, Run
from relexify.recipes.compare.trials import Trial, TrialResult, check_trial, finished_trial, run_trial
from relexify.recipes.recipe import Recipe, changed_tables, recipe_text, tables_beside
from relexify.recipes.run import inputs_of, run_identity
from relexify.recipes.tasks import Moment, check_tasks
from relexify.registry import choose
from relexify.reports import Comparison, TaskScores, TrainingCost, write_report
from relexify.steps import RunContext, TrainingSettings
from relexify.storage.files import MARKER, is_written, write_file
from relexify.storage.work import WorkFolder
from relexify.text import HELD_OUT_EVERY, Corpus
from relexify.training.curve import Curve

__all__ = ["run_comparison"]

_RECIPE = "recipe.toml"


def run_comparison(
    recipe: Recipe, *, only: Sequence[str] = (), device: str = "cpu", overwrite: bool = False
) -> list[Comparison]:
    """Train several variants of a recipe on the same text in the same order, and compare them.

    Runs are evaluated on the tasks of the recipe before training and after it; a model of several languages, only
    after it. Finished trials are kept in the output folder, and an interrupted one resumes from its last checkpoint.

    Args:
        recipe: With `[compare]`, a step that trains, and a step that has a method if the runs name one.
        only: Names of the runs to train; all of them if empty. Of the others, the report has those that are finished.
        device: Where to search; training uses what there is.
        overwrite: Repeat trials in the output folder that belong to another recipe.

    Returns:
        One comparison for each subsample of the text, or a single one.

    Raises:
        InputError: The recipe lacks a table or a run, a task is impossible, or the output belongs to another recipe.
    """
    compare, training = _check_recipe(recipe)
    names = [run.name for run in compare.runs]
    trained = {choose(name, names, "run") for name in only} or set(names)
    check_tasks(recipe.tasks, recipe.model, recipe.source)
    if recipe.output.exists() and any(recipe.output.iterdir()) and not is_written(recipe.output):
        raise OutputError(f"{recipe.output} was not written by relexify: choose another output, or remove it")
    trials = {
        size: _trials(recipe, compare, training, size, device=device, overwrite=overwrite)
        for size in compare.subsamples or (None,)
    }
    for trial in (trial for each in trials.values() for trial in each if trial.run in trained):
        check_trial(trial, inputs_of(recipe))
    write_file(recipe.output / MARKER, "{}\n")
    write_file(recipe.output / _RECIPE, recipe_text(recipe))
    comparisons = []
    for size, each in trials.items():
        folder = recipe.output if size is None else recipe.output / _size_name(size)
        finished = {trial.folder: finished_trial(trial) for trial in each}
        for trial in each:
            if finished[trial.folder] is None and trial.run in trained:
                finished[trial.folder] = run_trial(trial)
                write_report(_comparison(recipe, training, size, each, finished), folder)
        comparisons.append(_comparison(recipe, training, size, each, finished))
        write_report(comparisons[-1], folder)
    return comparisons


def _check_recipe(recipe: Recipe) -> tuple[CompareOptions, TrainingSettings]:
    """Return the table `[compare]`, and the settings of the training whose curves are compared.

    Raises:
        InputError: The recipe cannot be compared.
    """
    last = recipe.last_training
    has_method = any("method" in step.varies for step in recipe.steps)
    needs_method = recipe.compare is not None and any(run.method is not None for run in recipe.compare.runs)
    if recipe.compare is None or last is None or last.training is None or (needs_method and not has_method):
        methods = tables_beside("compare", lambda step: "method" in step.varies)
        trainings = tables_beside("compare", lambda step: step.training is not None)
        raise InputError(f"{recipe.source} cannot be compared: it needs {methods}, {trainings}, and [compare]")
    for step in recipe.steps:
        if reason := step.incomparable(recipe.tables[step.table]):
            raise InputError(f"{recipe.source} cannot be compared: {reason}")
    return recipe.compare, last.training.settings(recipe.tables[last.table])


def _trials(
    recipe: Recipe,
    compare: CompareOptions,
    training: TrainingSettings,
    size: int | None,
    *,
    device: str,
    overwrite: bool,
) -> list[Trial]:
    """Return all runs with all seeds, on about that many bytes of the text, or on all of it."""
    corpus = Corpus.open(recipe.corpus)
    if recipe.held_out is not None:
        held_out = Corpus.open(recipe.held_out)
    else:  # the same held-out text for every size
        corpus, held_out = corpus.split(HELD_OUT_EVERY)
    part = corpus if size is None else corpus.subsample(size)
    # Tasks in one of several languages need the model that has them, and that is the last one.
    moments: tuple[Moment, ...] = ("end",) if recipe.languages else ("start", "end")
    trials = []
    for seed in compare.seeds:
        for run in compare.runs:
            name, title = f"{run.name}-seed{seed}", f"{run.name}, seed {seed}"
            if size is not None:
                name, title = f"{_size_name(size)}-{name}", f"{title}, {_size_name(size)}"
            context = RunContext(recipe.model, part, held_out, _variant(recipe, run, seed, part, held_out), device)
            folder = recipe.output / "runs" / name
            trials.append(
                Trial(
                    run=run.name,
                    title=title,
                    plan=run.plan or training.plan,
                    context=context,
                    steps=tuple(recipe.steps),
                    tasks=recipe.tasks,
                    moments=moments,
                    work=WorkFolder(folder, "work", run_identity(context), overwrite=overwrite),
                    keep_model=compare.keep_models,
                )
            )
    return trials


def _variant(recipe: Recipe, run: Run, seed: int, corpus: Corpus, held_out: Corpus) -> dict[str, Any]:
    """Return the tables of a recipe with the changes, method, evidence, plan and seed of a run."""
    shared = {"without": run.without, "method": run.method, "seed": seed, "corpus": corpus, "held_out": held_out}
    tables = changed_tables(recipe, run.changes)
    for step in recipe.steps:
        # Only the last training follows the plan of a run that has one; earlier ones are the same in all runs.
        follows = run.plan is not None and step is recipe.last_training
        settings = {**shared, "plan": run.plan} if follows else shared
        for name, change in step.varies.items():
            if settings.get(name) is not None:
                tables[step.table] = change(tables[step.table], settings[name])
    return tables


def _comparison(
    recipe: Recipe,
    training: TrainingSettings,
    size: int | None,
    trials: Sequence[Trial],
    finished: Mapping[Path, TrialResult | None],
) -> Comparison:
    """Return the finished trials as one comparison."""
    title = recipe.title if size is None else f"{recipe.title}, {_size_name(size)} of text"
    curves: dict[str, tuple[Curve, ...]] = {}
    tasks: dict[str, tuple[TaskScores, ...]] = {}
    earlier: dict[str, tuple[Curve, ...]] = {}
    costs: dict[str, tuple[TrainingCost, ...]] = {}
    for trial in trials:
        result, name = finished[trial.folder], trial.run
        if result is not None:
            curves[name] = (*curves.get(name, ()), result.curve)
            if result.tasks:
                tasks[name] = (*tasks.get(name, ()), *result.tasks)
            if result.earlier is not None:
                earlier[name] = (*earlier.get(name, ()), result.earlier)
            if result.cost is not None:
                costs[name] = (*costs.get(name, ()), result.cost)
    machines = dict.fromkeys(cost.machine for found in costs.values() for cost in found)
    return Comparison(
        title,
        curves,
        training.tokens_per_step,
        {"machine": ", ".join(machines), "model": recipe.model},
        tasks,
        keeps_best=training.selects_best,
        earlier=earlier,
        plans={trial.run: trial.plan for trial in trials if trial.run in curves},
        costs=costs,
    )


def _size_name(size: int) -> str:
    return f"{size / 2**20:g}MiB"
