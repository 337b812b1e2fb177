"""Models measured on the tasks of a recipe; finished results are kept as json, unfinished ones go on."""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
from collections.abc import Sequence
from pathlib import Path

from relexify.recipes.file.task_entries import TaskEntry
from relexify.reports import TaskScores
from relexify.storage.files import MARKER, check_output, record_file, write_file
from relexify.storage.work import finished_run

__all__ = ["check_place", "kept_scores", "measure", "measure_output", "output_scores"]

RESULTS = "tasks.json"

logger = logging.getLogger(__name__)


def measure(model: Path, entry: TaskEntry, moment: str, folder: Path, *, device: str, of: str = "") -> TaskScores:
    """Measure a model on a task, or read what an earlier call came to.

    Args:
        model: The model's folder; not looked at where the result is kept.
        entry: The task.
        moment: `"start"` or `"end"` of training.
        folder: For results and unfinished work.
        device: Where probes and parsers are computed.
        of: Tells models apart that are measured in the same folder.
    """
    from relexify.evaluation.evaluate import evaluate_task

    place = _place(entry, moment, folder, of)
    found = kept_scores(entry, moment, folder, of=of)
    if found is None:
        logger.info("measuring %s at the %s of training", entry.title, moment)
        result = evaluate_task(model, entry.files, entry.evaluation(device), folder=place)
        found = TaskScores(entry.title, moment, tuple(seed.scores for seed in result.per_seed))
        write_file(_file(place), json.dumps(found.as_table(), indent=1, ensure_ascii=False) + "\n")
    shutil.rmtree(place, ignore_errors=True)
    return found


def kept_scores(entry: TaskEntry, moment: str, folder: Path, *, of: str = "") -> TaskScores | None:
    """What an earlier call came to, if it came to an end; arguments as those of `measure`."""
    path = _file(_place(entry, moment, folder, of))
    if not path.exists():
        return None
    try:
        kept = TaskScores.of_table(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError) as error:
        logger.warning("%s is damaged, and measured anew (%s)", path, error)
        path.unlink()
        return None
    return TaskScores(entry.title, kept.moment, kept.per_seed)


def check_place(output: Path, entries: Sequence[TaskEntry]) -> None:
    """Make sure that the folder for unfinished work is ours, or not there.

    Raises:
        OutputError: Somebody else's folder lies in its place.
    """
    work = _work_of(output)
    if entries and not (work / MARKER).exists():
        check_output(work)


def measure_output(output: Path, entries: Sequence[TaskEntry], *, device: str) -> None:
    """Measure the trained model of a recipe, and put the results into its folder."""
    if not entries or len(output_scores(output, entries)) == len(entries):
        return
    check_place(output, entries)
    work = _work_of(output)
    write_file(work / MARKER, "{}\n")
    trained = finished_run(output, "training") or ""
    found = {
        entry.identity(): measure(output, entry, "end", work, device=device, of=trained).as_table() for entry in entries
    }
    write_file(record_file(output / RESULTS), json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    shutil.rmtree(work, ignore_errors=True)


def output_scores(output: Path, entries: Sequence[TaskEntry]) -> tuple[TaskScores, ...]:
    """What `measure_output` put into the folder of a trained model for these tasks."""
    try:
        tables = json.loads((output / RESULTS).read_text(encoding="utf-8"))
        found = {entry: tables.get(entry.identity()) for entry in entries}
        kept = {entry: TaskScores.of_table(table) for entry, table in found.items() if table is not None}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return ()
    return tuple(TaskScores(entry.title, scores.moment, scores.per_seed) for entry, scores in kept.items())


def _work_of(output: Path) -> Path:
    return output.with_name(f"{output.name}.tasks")


def _place(entry: TaskEntry, moment: str, folder: Path, of: str) -> Path:
    """The folder for unfinished work, named by what the result depends on."""
    digest = hashlib.sha256(f"{entry.identity()} {of}".encode()).hexdigest()[:12]
    return folder / f"{entry.task}-{moment}-{digest}"


def _file(place: Path) -> Path:
    return place.with_name(f"{place.name}.json")
