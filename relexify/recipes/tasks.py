"""Evaluate the models of a recipe on its tasks, the tables `[[tasks]]`.

The scores of a model on a task are kept as json under a name that says what they depend on; unfinished evaluations
resume. What needs torch is imported by the functions, so that a recipe is validated without it.
"""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relexify.errors import InputError
from relexify.recipes.file.mistakes import located
from relexify.recipes.file.tasks import TaskEntry
from relexify.storage.files import record_file, write_file
from relexify.storage.fingerprint import fingerprint
from relexify.storage.json import UNREADABLE, read_json, read_result
from relexify.storage.revisions import TASK_SCORES
from relexify.text.remote import is_hub_data_set

if TYPE_CHECKING:
    from relexify.evaluation.results import TaskResult
    from relexify.reports import TaskScores

__all__ = ["check_tasks", "evaluate_entries", "finished_scores", "output_scores", "write_output_scores"]

RESULTS = "tasks.json"
"""The scores of a trained model on all tasks, in its folder."""

logger = logging.getLogger(__name__)


def check_tasks(entries: Sequence[TaskEntry], model: str, source: Path) -> None:
    """Validate, before any work, that a model can be evaluated on its tasks at the end.

    Args:
        entries: The tasks.
        model: The model that is transferred or trained.
        source: The recipe, for messages.

    Raises:
        InputError: A file is missing or malformed, or the model cannot be evaluated on a task.
    """
    from relexify.evaluation.evaluate import check_evaluation

    for index, entry in enumerate(entries):
        location = f"{source}: tasks[{index}]"
        for key, file in entry.files.all:
            if not is_hub_data_set(file) and not Path(file).is_file():
                raise InputError(f"{location}.{key} is {file}, which is not a file: check the path")
        with located(location):
            check_evaluation(model, entry.files, entry)


def evaluate_entries(
    model: Path | Mapping[str, str], entries: Sequence[TaskEntry], step: int | None, folder: Path, *, device: str
) -> list[TaskScores]:
    """Evaluate a model on all tasks, except those that an earlier call evaluated.

    Args:
        model: The model's folder, or one model for each language, as long as they are not one model; not used if all
            scores are there.
        entries: The tasks.
        step: The step of training that the model is from; None for its end.
        folder: Holds scores and unfinished work; all of it belongs to one run.
        device: Where probes and parsers are computed.
    """
    found = dict(zip((entry.title for entry in entries), finished_scores(entries, step, folder), strict=True))
    starts = _tasks_to_start_from(entries, {title for title, scores in found.items() if scores is None})
    encoders: dict[str, Path] = {}
    work_folders = _work_folders(entries, step, folder)
    for entry, work in zip(entries, work_folders, strict=True):
        keeps_encoder = entry.title in starts
        if found[entry.title] is not None and not keeps_encoder:
            continue
        when = "at the end of training" if step is None else f"at step {step:,}"
        logger.info("evaluating %s %s", entry.title, when)
        start = model if entry.start is None else encoders[entry.start]
        result = _evaluate(start, replace(entry, device=device, keep_encoders=keeps_encoder), work)
        if result.encoders:
            encoders[entry.title] = result.encoders[0]
        scores = _as_task_scores(entry, step, result)
        write_file(_score_file(work), json.dumps(scores.as_table(), indent=1, ensure_ascii=False) + "\n")
        found[entry.title] = scores
    for work in work_folders:
        shutil.rmtree(work, ignore_errors=True)
    return [scores for scores in found.values() if scores is not None]


def finished_scores(entries: Sequence[TaskEntry], step: int | None, folder: Path) -> list[TaskScores | None]:
    """Return the scores of an earlier call of `evaluate_entries`, for each task; None if it was not evaluated."""
    found = []
    for entry, work in zip(entries, _work_folders(entries, step, folder), strict=True):
        path = _score_file(work)
        scores = read_result(path, partial(_read_scores, entry=entry), otherwise="evaluating again")
        if scores is None:
            path.unlink(missing_ok=True)
        found.append(scores)
    return found


def write_output_scores(output: Path, entries: Sequence[TaskEntry], scores: Sequence[TaskScores]) -> None:
    """Write the scores of a trained model into its folder."""
    tables = {key: found.as_table() for key, found in zip(_fingerprint_tasks(entries), scores, strict=True)}
    write_file(record_file(output / RESULTS), json.dumps(tables, indent=1, ensure_ascii=False) + "\n")


def output_scores(output: Path, entries: Sequence[TaskEntry]) -> tuple[TaskScores, ...]:
    """Return the scores in the folder of a trained model; tasks that it was not evaluated on are left out."""
    tables = read_json(output / RESULTS)
    if not isinstance(tables, dict):
        return ()
    found = []
    for key, entry in zip(_fingerprint_tasks(entries), entries, strict=True):
        with suppress(*UNREADABLE):
            found.append(_read_scores(tables.get(key), entry))
    return tuple(found)


def _tasks_to_start_from(entries: Sequence[TaskEntry], unfinished: Collection[str]) -> set[str]:
    """Return the tasks whose fine-tuned encoder is needed, finished or not, because unfinished ones start from it."""
    starts: set[str] = set()
    for entry in reversed(entries):  # a task starts from one above it, which may start from another one
        if entry.start is not None and (entry.title in unfinished or entry.title in starts):
            starts.add(entry.start)
    return starts


def _evaluate(model: Path | Mapping[str, str], entry: TaskEntry, work: Path) -> TaskResult:
    """Evaluate a model, or one model for each language, on a task."""
    from relexify.evaluation.evaluate import evaluate_task

    if isinstance(model, Path):
        return evaluate_task(model, entry.files, entry, folder=work)
    through = None if entry.through is None else model[entry.through]
    options = replace(entry, language=None, through=through)
    return evaluate_task(model[str(entry.language)], entry.files, options, folder=work)


def _as_task_scores(entry: TaskEntry, step: int | None, result: TaskResult) -> TaskScores:
    """Return what reports say about the result of a task."""
    from relexify.reports import TaskScores

    chosen = {}
    if result.chosen is not None:
        chosen = {"learning_rate": result.chosen.learning_rate, "batch": result.chosen.batch}
    return TaskScores(
        entry.title,
        step,
        tuple(seed.scores for seed in result.per_seed),
        tests={name: tuple(seed.scores for seed in each.per_seed) for name, each in result.tests.items()},
        chosen=chosen,
        hint=result.hint,
    )


def _read_scores(table: Any, entry: TaskEntry) -> TaskScores:
    """Return the scores in a table, under the task's current name."""
    from relexify.reports import TaskScores

    return replace(TaskScores.of_table(table), task=entry.title)


def _work_folders(entries: Sequence[TaskEntry], step: int | None, folder: Path) -> list[Path]:
    """Return the folders for unfinished work, named by what the scores depend on."""
    moment = "end" if step is None else f"step{step}"
    keys = _fingerprint_tasks(entries)
    return [folder / f"{entry.task}-{moment}-{key[:12]}" for entry, key in zip(entries, keys, strict=True)]


def _fingerprint_tasks(entries: Sequence[TaskEntry]) -> list[str]:
    """Return what the scores on each task depend on, which includes the tasks that a task starts from."""
    keys: dict[str, str] = {}
    for entry in entries:
        keys[entry.title] = fingerprint((entry, TASK_SCORES, None if entry.start is None else keys[entry.start]))
    return list(keys.values())


def _score_file(work: Path) -> Path:
    """Return the file for the scores of an evaluation, beside the folder for its unfinished work."""
    return work.with_name(f"{work.name}.json")
