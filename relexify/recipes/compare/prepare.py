"""Prepare a comparison: validate it, and make a trial of every run, seed and size of text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from relexify.device import AUTO, resolve_device
from relexify.errors import InputError, OutputError
from relexify.recipes.compare.checks import check_comparable
from relexify.recipes.compare.trials import EvaluationSteps, Trial, check_trial
from relexify.recipes.file.comparison import CompareOptions, Run
from relexify.recipes.file.recipe import Recipe, changed_tables
from relexify.recipes.run import run_identity, run_revisions
from relexify.recipes.tasks import check_tasks
from relexify.registry import choose
from relexify.steps import RunContext, TrainingSettings, Variant, run_seed
from relexify.storage.files import is_written
from relexify.storage.revisions import TRIALS
from relexify.storage.runs.work import WorkFolder
from relexify.text import HELD_OUT_EVERY, Corpus, TextOption

__all__ = ["PreparedComparison", "prepare_comparison", "size_name", "texts_of_trials"]


@dataclass(frozen=True)
class PreparedComparison:
    """A comparison whose options and inputs were validated.

    Attributes:
        trials: The trials of all runs, by the size of the subsample; None for the whole text.
        to_train: The names of the runs to train.
        training: The settings of the training whose curves are compared.
    """

    trials: Mapping[int | None, Sequence[Trial]]
    to_train: frozenset[str]
    training: TrainingSettings

    @property
    def all_trials(self) -> list[Trial]:
        """The trials on all parts of the text."""
        return list(chain.from_iterable(self.trials.values()))

    @property
    def trials_to_train(self) -> list[Trial]:
        """The trials of the runs to train, finished or not."""
        return [trial for trial in self.all_trials if trial.run in self.to_train]


def prepare_comparison(
    recipe: Recipe, *, only: Sequence[str] = (), device: str = AUTO, overwrite: bool = False
) -> PreparedComparison:
    """Validate everything about a comparison before any work; arguments and errors as for `run_comparison`."""
    compare, training = check_comparable(recipe)
    names = [run.name for run in compare.runs]
    to_train = frozenset(choose(name, names, "run") for name in only or names)
    check_tasks(recipe.tasks, recipe.model, recipe.source)
    if recipe.output.exists() and any(recipe.output.iterdir()) and not is_written(recipe.output):
        raise OutputError(f"{recipe.output} was not written by relexify: choose another output, or remove it")
    trials = {
        size: _make_trials(recipe, compare, training, size, device=resolve_device(device), overwrite=overwrite)
        for size in compare.subsamples or (None,)
    }
    prepared = PreparedComparison(trials, to_train, training)
    for trial in prepared.trials_to_train:
        check_trial(trial, recipe)
    return prepared


def texts_of_trials(corpus: TextOption, held_out: TextOption | None, size: int | None) -> tuple[Corpus, Corpus]:
    """Return the text that trials are trained on and the one that they are scored on, the same for every size.

    Args:
        corpus: The whole text.
        held_out: Text to score on; if None, a part of the whole text is held out.
        size: About how many bytes of the text to train on; all of it if None.
    """
    text = Corpus.open(corpus)
    if held_out is not None:
        measured = Corpus.open(held_out)
    else:
        text, measured = text.split(HELD_OUT_EVERY)
    return text if size is None else text.subsample(size), measured


def size_name(size: int) -> str:
    """Return a size with its unit: 8MB, 16MiB, 1500B."""
    units = ((10**6, "MB"), (2**20, "MiB"), (1, "B"))
    return next(f"{size // factor}{unit}" for factor, unit in units if size % factor == 0)


def _make_trials(
    recipe: Recipe,
    compare: CompareOptions,
    training: TrainingSettings,
    size: int | None,
    *,
    device: str,
    overwrite: bool,
) -> list[Trial]:
    """Return the trials of all runs and seeds, on about `size` bytes of the text, or on all of it if it is None."""
    corpus, held_out = texts_of_trials(recipe.corpus, recipe.held_out, size)
    evaluation_steps = _evaluation_steps(recipe, compare)
    trials = []
    for seed in compare.seeds:
        for run in compare.runs:
            name, title = f"{run.name}-seed{seed}", f"{run.name}, seed {seed}"
            if size is not None:
                name, title = f"{size_name(size)}-{name}", f"{title}, {size_name(size)}"
            tables = _vary_tables(recipe, run, seed, corpus, held_out, evaluation_steps.snapshots)
            context = RunContext(recipe.model, corpus, held_out, tables, device, seed=run_seed(recipe.steps, tables))
            folder = recipe.output / "runs" / name
            trials.append(
                Trial(
                    run=run.name,
                    title=title,
                    plan=run.plan or training.plan,
                    context=context,
                    steps=tuple(recipe.steps),
                    tasks=recipe.tasks,
                    evaluation_steps=evaluation_steps,
                    languages=recipe.languages,
                    work=WorkFolder(
                        folder,
                        "work",
                        run_identity(context),
                        revisions={**run_revisions(context), "trials": TRIALS},
                        overwrite=overwrite,
                    ),
                    keep_model=compare.keep_models,
                )
            )
    return trials


def _evaluation_steps(recipe: Recipe, compare: CompareOptions) -> EvaluationSteps:
    """Return when runs are evaluated on tasks.

    Raises:
        InputError: A share is not a step of the last training, or that training cannot keep the models of single steps.
    """
    if not recipe.tasks:
        return EvaluationSteps(0, ())
    # Only the last model has several languages, so tasks in one of them are evaluated at its end by default.
    shares = compare.tasks_at or ((1.0,) if recipe.languages else (0.0, 1.0))
    trainings = [(step.table, step.training) for step in recipe.steps if step.training is not None]
    *earlier, last = [training.settings(recipe.tables[table]).steps for table, training in trainings]
    snapshots = {share: round(share * last) for share in shares if 0 < share < 1}
    for share, optimiser_step in snapshots.items():
        if not 0 < optimiser_step < last:
            raise InputError(
                f"{recipe.source}: compare.tasks_at has {share:g}, which is no step between the first and the last of "
                f"{last:,}: leave it out, or train for more steps"
            )
    table, training = trainings[-1]
    if snapshots and training.with_snapshots is None:
        raise InputError(
            f"{recipe.source}: compare.tasks_at has {min(snapshots):g}, and [{table}] keeps no models of single steps: "
            "give 0 and 1"
        )
    steps_before = sum(earlier)
    steps = {steps_before + each for each in snapshots.values()} | ({0, steps_before} if 0 in shares else set())
    return EvaluationSteps(steps_before, (*sorted(steps), *([None] if 1 in shares else [])))


def _vary_tables(
    recipe: Recipe, run: Run, seed: int, corpus: Corpus, held_out: Corpus, snapshots: tuple[int, ...]
) -> dict[str, Any]:
    """Return the tables of a recipe with everything in which a run differs from it.

    Args:
        recipe: The recipe.
        run: The run.
        seed: Random seed of all steps.
        corpus: The part of the text to train on.
        held_out: Text to score on.
        snapshots: Steps of the last training whose models are kept, to be evaluated on tasks.
    """
    variant = Variant(seed, corpus, held_out, method=run.method, without=run.without, aligned_by=run.aligned_by)
    tables = changed_tables(recipe, run.changes)
    for step in recipe.steps:
        tables[step.table] = step.comparison.vary(tables[step.table], variant)
    # Only the last training follows the plan of a run that has one; earlier ones are the same in all runs.
    last = recipe.last_training
    if last is not None and last.training is not None:
        if run.plan is not None and last.training.with_plan is not None:
            tables[last.table] = last.training.with_plan(tables[last.table], run.plan)
        if snapshots and last.training.with_snapshots is not None:
            tables[last.table] = last.training.with_snapshots(tables[last.table], snapshots)
    return tables
