"""Compare runs: train variants of one recipe on the same text in the same order, and report on them.

Every trial has a folder in `OUTPUT/runs`; the report is in `OUTPUT`, or in one folder there for each subsample.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from relexify.device import AUTO
from relexify.progress import runs_follow, track
from relexify.recipes.compare.prepare import prepare_comparison, size_name
from relexify.recipes.compare.trials import Trial, TrialResult, finished_trial, run_trial
from relexify.recipes.file.recipe import Recipe, recipe_text
from relexify.reports import Comparison, write_report
from relexify.steps import TrainingSettings
from relexify.storage.files import MARKER, write_file

__all__ = ["report_folder", "run_comparison"]

Value = TypeVar("Value")

_RECIPE = "recipe.toml"

logger = logging.getLogger(__name__)


def run_comparison(
    recipe: Recipe, *, only: Sequence[str] = (), device: str = AUTO, overwrite: bool = False
) -> list[Comparison]:
    """Train several variants of a recipe on the same text in the same order, and compare them.

    Runs are evaluated on the tasks of the recipe as `CompareOptions.tasks_at` says. Finished trials are kept in the
    output folder, and an interrupted one resumes from its last checkpoint.

    Args:
        recipe: With `[compare]`, a step that trains, and a step that has a method if the runs name one.
        only: Names of the runs to train; all of them if empty. Of the others, the report has those that are finished.
        device: Where to search: `cpu`, `cuda`, or `auto` for a GPU if there is one, which training uses.
        overwrite: Repeat trials in the output folder that belong to another recipe.

    Returns:
        One comparison for each subsample of the text, or a single one.

    Raises:
        InputError: The recipe lacks a table or a run, a task is impossible, or the output belongs to another recipe.
    """
    prepared = prepare_comparison(recipe, only=only, device=device, overwrite=overwrite)
    training = prepared.training
    write_file(recipe.output / MARKER, "{}\n")
    write_file(recipe.output / _RECIPE, recipe_text(recipe).encode("utf-8", "surrogateescape"))
    finished = {trial.folder: finished_trial(trial) for trial in prepared.all_trials}
    pending = {trial.folder for trial in prepared.trials_to_train if finished[trial.folder] is None}
    logger.info("%d of %d runs are left", len(pending), len(finished))
    comparisons = []
    with track("comparing", len(finished)) as advance:
        advance(len(finished) - len(pending))
        for size, trials in prepared.trials.items():
            folder = report_folder(recipe.output, size)
            for trial in trials:
                if trial.folder in pending:
                    pending.remove(trial.folder)
                    with runs_follow(len(pending)):
                        finished[trial.folder] = run_trial(trial)
                    advance(1)
                    # After every trial, so that an interrupted comparison leaves a report of those that are finished.
                    write_report(_gather_results(recipe, training, size, trials, finished), folder)
            comparisons.append(_gather_results(recipe, training, size, trials, finished))
            write_report(comparisons[-1], folder)
    return comparisons


def report_folder(output: Path, size: int | None) -> Path:
    """Return the folder for the report on a subsample of a size, or on the whole text if it is None."""
    return output if size is None else output / size_name(size)


def _gather_results(
    recipe: Recipe,
    training: TrainingSettings,
    size: int | None,
    trials: Sequence[Trial],
    finished: Mapping[Path, TrialResult | None],
) -> Comparison:
    """Return the finished trials as one comparison."""
    results: dict[str, list[TrialResult]] = {}
    for trial in trials:
        if (result := finished[trial.folder]) is not None:
            results.setdefault(trial.run, []).append(result)

    def by_run(values: Callable[[TrialResult], Iterable[Value]]) -> dict[str, tuple[Value, ...]]:
        """Return some values of all seeds, by the name of the run; runs without any are left out."""
        found = {run: tuple(value for each in seeds for value in values(each)) for run, seeds in results.items()}
        return {run: kept for run, kept in found.items() if kept}

    costs = by_run(lambda result: () if result.cost is None else (result.cost,))
    machines = dict.fromkeys(cost.machine for found in costs.values() for cost in found)
    return Comparison(
        recipe.title if size is None else f"{recipe.title}, {size_name(size)} of text",
        by_run(lambda result: (result.curve,)),
        {"machine": ", ".join(machines), "model": recipe.model},
        by_run(lambda result: result.tasks),
        keeps_best=training.selects_best,
        earlier=by_run(lambda result: () if result.earlier is None else (result.earlier,)),
        plans={trial.run: trial.plan for trial in trials if trial.run in results},
        costs=costs,
        evidence_quality=by_run(lambda result: (result.evidence_quality,) if result.evidence_quality else ()),
        settings={trial.run: found for trial in trials if trial.run in results and (found := _method_settings(trial))},
    )


def _method_settings(trial: Trial) -> dict[str, bool]:
    """Return the settings that the method of a trial decides, by their keys in a recipe."""
    return {
        f"{step.table}.{key}": value
        for step in trial.steps
        for key, value in step.comparison.method_settings(trial.context.tables[step.table]).items()
    }
