"""Carry a recipe file out: transfer, train, or compare several runs; stopped, it goes on where it was."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from relexify.errors import InputError, OutputError
from relexify.recipes.bilingual import run_bilingual
from relexify.recipes.compare.bilingual_trials import in_two_languages
from relexify.recipes.compare.trials import Trial, TrialResult, size_name, trials_of
from relexify.recipes.file.schema import RecipeFile, recipe_text
from relexify.recipes.file.task_entries import check_tasks
from relexify.recipes.finished import is_finished, note_finished
from relexify.recipes.measuring import check_place, measure_output
from relexify.recipes.preparing import prepare_start
from relexify.reports import Comparison, TaskScores, write_report
from relexify.storage.files import MARKER, check_inputs, check_output, write_file
from relexify.systems.transfer.checks import check_transfer, transfer_inputs
from relexify.systems.transfer.grafts import clear_graft, graft_once, is_grafted, transfer_identity
from relexify.systems.transfer.options import Transfer
from relexify.systems.transfer.run import TransferResult, run_transfer
from relexify.systems.trelm.options import Trelm, trelm_inputs
from relexify.systems.trelm.run import check_run, run_trelm
from relexify.training.curve import Curve
from relexify.training.plan import Training
from relexify.training.result import TrainingResult, is_trained, load_result
from relexify.training.run import train
from relexify.training.trainable import check_trainable_name

__all__ = ["run_comparison", "run_recipe", "transfer_identity"]

RECIPE_FILE = "recipe.toml"

logger = logging.getLogger(__name__)


def run_recipe(recipe: RecipeFile, *, device: str = "cpu", overwrite: bool = False) -> TransferResult | TrainingResult:
    """Transfer a model, train it on, or both, as a recipe says; then measure it on the recipe's tasks.

    With `[trelm]`, the phases of TreLM take it over. With `[bilingual]`, it is then joined with the model that it came
    from. `output_scores` tells what was measured on tasks.

    Args:
        recipe: With `[transfer]`, `[training]` or both; with `[transfer]` and `[bilingual]`, and perhaps `[training]`;
            with `[trelm]`, and perhaps `[transfer]`.
        device: Where to search and score; training takes what there is.
        overwrite: Replace the output.

    Raises:
        InputError: There is nothing to do, or a task cannot be done.
    """
    check_inputs(recipe.output, *_inputs(recipe))
    if recipe.bilingual is not None:
        return run_bilingual(recipe, device=device, overwrite=overwrite)
    if recipe.trelm is not None:
        return _take_over(recipe, recipe.trelm, device, overwrite)
    if recipe.transfer is None and recipe.training is None:
        raise InputError(f"{recipe.source} has neither [transfer] nor [training]: say what is to be done")
    if recipe.tasks and recipe.training is None:
        raise InputError(
            f"{recipe.source} has [[tasks]] for the trained model and no [training]: add it, or use relexify evaluate"
        )
    check_tasks(recipe.tasks, recipe.model, recipe.source)
    check_place(recipe.output, recipe.tasks)
    if recipe.training is None and recipe.compress is not None:
        raise InputError(f"{recipe.source} has [compress] and no [training]: add it, or use relexify compress")
    if recipe.training is None and recipe.transfer is not None:
        return run_transfer(replace(recipe.transfer, device=device, overwrite=overwrite))
    if not overwrite and is_finished(recipe):
        logger.info("%s is the result of this very recipe already", recipe.output)
        measure_output(recipe.output, recipe.tasks, device=device)
        return load_result(recipe.output)
    grafted, start = (recipe.output.with_name(f"{recipe.output.name}.{part}") for part in ("grafted", "start"))
    model = recipe.model
    if recipe.transfer is not None:
        _graft(recipe, replace(recipe.transfer, output=grafted, device=device), overwrite)
        model = str(grafted)
    elif not is_trained(recipe.output):
        check_output(recipe.output, overwrite=overwrite)
    if recipe.fresh is not None or recipe.compress is not None:
        prepare_start(recipe, model, start)
        model = str(start)
    result = _train(recipe, model, device, overwrite)
    note_finished(recipe)
    for folder, made in ((grafted, recipe.transfer is not None), (start, model == str(start))):
        if made:
            clear_graft(folder)
    return result


def run_comparison(recipe: RecipeFile, *, device: str = "cpu", overwrite: bool = False) -> list[Comparison]:
    """Train several initialisations on the same text in the same order, and hold them side by side.

    Where the recipe has tasks, every run is measured on them before training and after it; with `[bilingual]`, both
    languages are trained together in the end, and tasks are measured then. Finished runs are kept in the output folder,
    and a stopped run goes on from its last checkpoint.

    Args:
        recipe: With `[transfer]`, `[training]` and `[compare]`, and perhaps `[bilingual]`.
        device: Where to search; training takes what there is.
        overwrite: Do runs anew that lie in the output folder and belong to another recipe.

    Returns:
        One comparison for each subsample of the text, or a single one.

    Raises:
        InputError: Something is missing in the recipe, a task cannot be done, or the output belongs to another one.
    """
    if recipe.compare is None or recipe.transfer is None or recipe.training is None:
        raise InputError(f"{recipe.source} cannot be compared: it needs [transfer], [training] and [compare]")
    if recipe.training.stages:
        raise InputError(
            f"{recipe.source} has [[training.stages]] and [compare]: runs have plans of their own, leave out one"
        )
    check_tasks(recipe.tasks, recipe.model, recipe.source)
    sizes = recipe.compare.subsamples or (None,)
    trials = {size: _trials(recipe, size, device) for size in sizes}
    _check_comparison(recipe, [trial for each in trials.values() for trial in each], overwrite)
    write_file(recipe.output / MARKER, "{}\n")
    write_file(recipe.output / RECIPE_FILE, recipe_text(recipe))
    comparisons = []
    for size, each in trials.items():
        found = {trial: trial.kept() for trial in each}
        folder = recipe.output if size is None else recipe.output / size_name(size)
        for trial in each:
            if found[trial] is None:
                found[trial] = trial.carry_out()
                write_report(_comparison(recipe, size, found), folder)
        comparisons.append(_comparison(recipe, size, found))
        write_report(comparisons[-1], folder)
    return comparisons


def _trials(recipe: RecipeFile, size: int | None, device: str) -> list[Trial]:
    trials = list(trials_of(recipe, size, device))
    step, training, transfer = recipe.bilingual, recipe.training, recipe.transfer
    if step is None or training is None or transfer is None:
        return trials
    return [in_two_languages(trial, step, training, transfer, recipe.source) for trial in trials]


def _check_comparison(recipe: RecipeFile, trials: list[Trial], overwrite: bool) -> None:
    """Refuse everything that would stop a comparison in its middle, and make way where told to."""
    if recipe.output.exists() and any(recipe.output.iterdir()) and not (recipe.output / MARKER).exists():
        raise OutputError(f"{recipe.output} was not written by relexify: give another output, or remove it")
    for trial in {trial.run.plan: trial for trial in trials if trial.is_untrained()}.values():
        trial.check()
    for trial in trials:
        check_transfer(trial.transfer)
        reason = ""
        if trial.is_of_another_recipe():
            reason = "belongs to another recipe, other texts or another model: give another output, "
        elif trial.lacks_its_model():
            reason = "was finished without these tasks, and its model was not kept: leave the tasks as they were, "
        if reason and not overwrite:
            raise InputError(f"{trial.folder} {reason}or pass --overwrite to do it anew")
        if reason:
            check_inputs(trial.folder, *_inputs(recipe))
            trial.check_removable()
            shutil.rmtree(trial.folder)


def _inputs(recipe: RecipeFile) -> list[Any]:
    """Return everything that a recipe names to be read, and the recipe itself, for `check_inputs`."""
    source = recipe.source if recipe.source.is_file() else None
    inputs: list[Any] = [source, recipe.model, recipe.corpus, recipe.held_out]
    if recipe.transfer is not None:
        inputs += transfer_inputs(recipe.transfer)
    if recipe.compress is not None:
        inputs.append(recipe.compress.codes_from)
    if recipe.bilingual is not None:
        inputs += [recipe.bilingual.source_corpus, recipe.bilingual.source_held_out]
    if recipe.trelm is not None:
        inputs += trelm_inputs(recipe.trelm)
    for task in recipe.tasks:
        inputs += [task.train, task.test, task.dev]
    return inputs


def _graft(recipe: RecipeFile, transfer: Transfer, overwrite: bool) -> None:
    """Write the graft that a training begins with, unless an earlier call did."""
    if not (is_grafted(transfer) and is_trained(recipe.output)):  # else stopped while it was clearing up
        check_output(recipe.output, overwrite=overwrite)
        if recipe.training is not None:
            check_trainable_name(recipe.model, recipe.training)
    graft_once(transfer)


def _take_over(recipe: RecipeFile, options: Trelm, device: str, overwrite: bool) -> TrainingResult:
    """TreLM, after the transfer that gives the model the vocabulary of both languages or the new one's, if any."""
    grafted, model = recipe.output.with_name(f"{recipe.output.name}.grafted"), recipe.model
    if recipe.transfer is not None:
        if options.vocabularies == "separate":
            options = replace(options, source_model=options.source_model or recipe.model)
        transfer = replace(recipe.transfer, output=grafted, device=device)
        if not (is_grafted(transfer) and is_trained(recipe.output)):
            check_output(recipe.output, overwrite=overwrite)
            check_run(recipe.model, options)
        graft_once(transfer)
        model = str(grafted)
    result = run_trelm(model, recipe.output, recipe.corpus, options, held_out=recipe.held_out, overwrite=overwrite)
    clear_graft(grafted)
    return result.training


def _train(recipe: RecipeFile, model: str, device: str, overwrite: bool) -> TrainingResult:
    """Train, and measure on the tasks."""
    result = train(model, recipe.output, recipe.corpus, recipe.training, held_out=recipe.held_out, overwrite=overwrite)
    measure_output(recipe.output, recipe.tasks, device=device)
    return result


def _comparison(recipe: RecipeFile, size: int | None, found: Mapping[Trial, TrialResult | None]) -> Comparison:
    import torch

    training = recipe.bilingual.training if recipe.bilingual else recipe.training or Training()
    machine = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    title = recipe.title if size is None else f"{recipe.title}, {size_name(size)} of text"
    curves: dict[str, tuple[Curve, ...]] = {}
    tasks: dict[str, tuple[TaskScores, ...]] = {}
    earlier: dict[str, tuple[Curve, ...]] = {}
    for trial, result in found.items():
        if result is not None:
            curves[trial.run.name] = (*curves.get(trial.run.name, ()), result.curve)
            tasks[trial.run.name] = (*tasks.get(trial.run.name, ()), *result.tasks)
            if result.earlier is not None:
                earlier[trial.run.name] = (*earlier.get(trial.run.name, ()), result.earlier)
    tasks = {run: scores for run, scores in tasks.items() if scores}
    notes = {"machine": machine, "model": recipe.model}
    best = training.selects_best
    return Comparison(title, curves, training.tokens_per_step, notes, tasks, keeps_best=best, earlier=earlier)
