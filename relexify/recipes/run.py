"""Run a recipe: its steps one after the other, then its tasks.

Each step takes the model that the one before it wrote. Intermediate models are in `OUTPUT.work` until the last step has
written the output and its tasks are evaluated. If the process is killed, the same command resumes. A finished run is
recognised by the content of everything that its result depends on.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from relexify.device import AUTO, resolve_device
from relexify.errors import InputError
from relexify.methods.registry import METHODS
from relexify.recipes.file.recipe import Recipe, tables_beside
from relexify.recipes.tasks import check_tasks, evaluate_entries, output_scores, write_output_scores
from relexify.steps import STEPS, RunContext, Step, methods_of, run_seed
from relexify.storage.documents import without_documents
from relexify.storage.files import is_written
from relexify.storage.inputs import check_inputs
from relexify.storage.revisions import RUN_REVISIONS
from relexify.storage.runs.work import WorkFolder
from relexify.text import Corpus, sample_revisions
from relexify.training.distributed import started_processes

__all__ = [
    "PreparedRun",
    "check_recipe_inputs",
    "prepare_run",
    "run_identity",
    "run_recipe",
    "run_revisions",
    "run_step",
    "run_steps",
]

_OWN_TEXTS = ("source_corpus", "source_held_out")
"""Options of tables with text that the run does not give them."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class PreparedRun:
    """A run whose options and inputs were validated.

    Attributes:
        context: The inputs that its steps share.
        work: The folder for its unfinished work.
        is_finished: Whether the output is already the result of its steps; tasks may be missing.
    """

    context: RunContext
    work: WorkFolder
    is_finished: bool


def run_recipe(recipe: Recipe, *, device: str = AUTO, overwrite: bool = False) -> Any:
    """Run the steps of a recipe, and evaluate the model on its tasks.

    `output_scores` of `relexify.recipes.tasks` returns the scores on the tasks.

    Args:
        recipe: With at least one step.
        device: Where to search and score: `cpu`, `cuda`, or `auto` for a GPU if there is one, which training uses.
        overwrite: Replace the output, and unfinished work of another run.

    Returns:
        The result of the last step.

    Raises:
        InputError: There is nothing to do, a step or a task is impossible, or unfinished work belongs to another run.
        OutputError: The output exists and is not the result of this recipe, or cannot be written.
    """
    prepared = prepare_run(recipe, device=device, overwrite=overwrite)
    context, work, finished = prepared.context, prepared.work, prepared.is_finished
    *first, last = recipe.steps
    if finished and last.load is not None and _is_evaluated(recipe):
        logger.info("%s is up to date; nothing to run", recipe.output)
        work.clear()
        return last.load(recipe.output)
    processes = started_processes()
    with work.claim() if processes.is_main_process else nullcontext():
        processes.wait_for_everyone()
        try:
            if finished and last.load is not None:
                logger.info("%s is up to date; evaluating it on new tasks", recipe.output)
                result = last.load(recipe.output)
            else:
                model = run_steps(first, context, work.path)
                result = run_step(last, context, model, recipe.output)
            if not _is_evaluated(recipe):
                scores = evaluate_entries(recipe.output, recipe.tasks, None, work.path / "tasks", device=context.device)
                write_output_scores(recipe.output, recipe.tasks, scores)
        except InputError:
            # A corrected recipe is another run, which this folder would keep out. Trained models stay.
            has_trained = any(list(work.path.glob(f"{step.table}*")) for step in first if step.training is not None)
            if processes.is_main_process and not has_trained:
                work.clear()
            raise
        processes.wait_for_everyone()
        if processes.is_main_process:
            work.mark_finished()
    return result


def prepare_run(recipe: Recipe, *, device: str = AUTO, overwrite: bool = False) -> PreparedRun:
    """Validate everything about a run before any work; arguments and errors as for `run_recipe`."""
    if not recipe.steps:
        tables = " or ".join(f"[{table}]" for table in STEPS)
        raise InputError(f"{recipe.source} has no steps: add {tables}")
    if recipe.tasks and recipe.last_training is None:
        tables = tables_beside("tasks", lambda step: step.training is not None)
        raise InputError(
            f"{recipe.source} has [[tasks]] for a trained model and no table that trains it: add {tables}, or use "
            "relexify evaluate"
        )
    held_out = None if recipe.held_out is None else Corpus.open(recipe.held_out)
    context = RunContext(
        recipe.model,
        Corpus.open(recipe.corpus),
        held_out,
        recipe.tables,
        resolve_device(device),
        overwrite,
        run_seed(recipe.steps, recipe.tables),
    )
    check_recipe_inputs(recipe, recipe.output)
    check_tasks(recipe.tasks, recipe.model, recipe.source)
    revisions = run_revisions(context)
    work = WorkFolder(recipe.output, "work", run_identity(context), revisions=revisions, overwrite=overwrite)
    is_finished = not overwrite and work.is_finished() and recipe.steps[-1].load is not None
    if not is_finished:
        if not work.path.exists():  # if it exists, a killed run may have written the output already
            work.check()
        for step in recipe.steps:
            step.check(recipe.tables[step.table], context)
    return PreparedRun(context, work, is_finished)


def run_identity(context: RunContext) -> dict[str, object]:
    """Return everything that the result of a run depends on."""
    return {
        "model": Path(context.source_model),
        "corpus": context.corpus,
        "held_out": context.held_out,
        "tables": context.tables,
    }


def run_revisions(context: RunContext) -> dict[str, int]:
    """Return the revisions of the code that makes the result of a run; tasks have one of their own."""
    methods = {f"{table}.method": METHODS[name].revision for table, name in methods_of(context.tables).items()}
    own_texts = [getattr(options, name, None) for options in context.tables.values() for name in _OWN_TEXTS]
    return {**RUN_REVISIONS, **methods, **sample_revisions(context.corpus, context.held_out, *own_texts)}


def run_steps(steps: Sequence[Step[Any, Any]], context: RunContext, work: Path) -> str:
    """Run steps that others follow, except those that an earlier call finished.

    Args:
        steps: In their order.
        context: The run.
        work: The folder for their models; all of it belongs to this run.

    Returns:
        The model that the last of them wrote, or the source model if there are none.
    """
    model = context.source_model
    for step in steps:
        folder = work / step.table
        if not is_written(folder):
            with without_documents():
                run_step(step, replace(context, overwrite=False), model, folder)
        model = str(folder)
    return model


def run_step(step: Step[Any, Any], context: RunContext, model: str, output: Path) -> Any:
    """Run one step, in all processes of a distributed launch or in the first one."""
    options, processes = context.tables[step.table], started_processes()
    if step.distributed:
        return step.run(options, context, model, output)
    result = step.run(options, context, model, output) if processes.is_main_process else None
    processes.wait_for_everyone()
    return result if processes.is_main_process or step.load is None else step.load(output)


def check_recipe_inputs(recipe: Recipe, output: Path) -> None:
    """Validate that an output replaces nothing that a recipe reads, nor the recipe itself, as `check_inputs` does."""
    inputs: list[Any] = [recipe.model]
    if recipe.source.is_file():
        inputs.append(recipe.source)
    for step in recipe.steps:
        inputs += step.inputs(recipe.tables[step.table])
    for task in recipe.tasks:
        inputs += [file for _, file in task.files.all]
    check_inputs(output, *inputs, texts=(recipe.corpus, recipe.held_out))


def _is_evaluated(recipe: Recipe) -> bool:
    return len(output_scores(recipe.output, recipe.tasks)) == len(recipe.tasks)
