"""The tables `[[tasks]]` of a recipe: the tasks that its models are evaluated on.

    [[tasks]]
    task = "ner"
    train = "$DATA/train.tsv"
    test = "$DATA/test.tsv"
    epochs = 3
    seeds = [0, 1]

The scores of a model on a task are kept as json under a name that says what they depend on; unfinished evaluations
resume.
"""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from relexify.errors import InputError
from relexify.evaluation.data.files import TaskFiles
from relexify.evaluation.options import Evaluation
from relexify.evaluation.registry import TASKS
from relexify.recipes.schema import FolderName
from relexify.reports import TaskScores
from relexify.storage.files import record_file, write_file
from relexify.storage.fingerprint import BY_CONTENT, NO_EFFECT, fingerprint
from relexify.storage.json import read_json
from relexify.text import TextName

__all__ = ["TaskEntry", "check_tasks", "evaluate_entry", "finished_scores", "output_scores", "write_output_scores"]

RESULTS = "tasks.json"
"""The scores of a trained model on all tasks, in its folder."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class TaskEntry(Evaluation):
    """One task of a recipe.

    Attributes:
        train: The data to train on.
        test: The data to test on.
        dev: The data to choose the best epoch by.
        name: Its name in tables; if not given, that of the task.

    Raises:
        InputError: An option is impossible for the task, or the task needs development data.
    """

    train: TextName = field(metadata=BY_CONTENT)
    test: TextName = field(metadata=BY_CONTENT)
    dev: TextName | None = field(default=None, metadata=BY_CONTENT)
    name: FolderName | None = field(default=None, metadata=NO_EFFECT)

    def __post_init__(self) -> None:
        super().__post_init__()
        if TASKS[self.task].needs_dev and self.dev is None:
            raise InputError(f"the task {self.task} lacks dev, data to choose the best epoch by: add it")

    @property
    def title(self) -> str:
        """Its name in tables and files."""
        parts = [self.task, "probe" if self.probe else None, self.through]
        return self.name or "-".join(part for part in parts if part)

    @property
    def files(self) -> TaskFiles:
        """Its data."""
        return TaskFiles(self.train, self.test, self.dev)


def check_tasks(entries: Sequence[TaskEntry], model: str, source: Path) -> None:
    """Validate before any work what an evaluation at the end needs.

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
        for key in ("train", "dev", "test"):
            file = getattr(entry, key)
            if file is not None and not file.startswith("hf:") and not Path(file).is_file():
                raise InputError(f"{location}.{key} is {file}, which is not a file: check the path")
        try:
            check_evaluation(model, entry.files, entry)
        except InputError as error:
            raise InputError(f"{location}: {error}") from error


def evaluate_entry(
    model: Path | Mapping[str, str], entry: TaskEntry, step: int | None, folder: Path, *, device: str
) -> TaskScores:
    """Evaluate a model on a task, or return the scores of an earlier call.

    Args:
        model: The model's folder, or one model for each language, as long as they are not one model; not used if the
            scores are there.
        entry: The task.
        step: The step of training that the model is from; None for its end.
        folder: For scores and unfinished work; all of it belongs to one run.
        device: Where probes and parsers are computed.
    """
    from relexify.evaluation.evaluate import evaluate_task

    found = finished_scores(entry, step, folder)
    work = _work(entry, step, folder)
    if found is None:
        logger.info("Evaluating %s %s.", entry.title, "at the end of training" if step is None else f"at step {step:,}")
        options = replace(entry, device=device)
        if isinstance(model, Mapping):
            through = None if entry.through is None else model[entry.through]
            options, model = replace(options, language=None, through=through), Path(model[str(entry.language)])
        result = evaluate_task(model, entry.files, options, folder=work)
        found = TaskScores(entry.title, step, tuple(seed.scores for seed in result.per_seed))
        write_file(_file(work), json.dumps(found.as_table(), indent=1, ensure_ascii=False) + "\n")
    shutil.rmtree(work, ignore_errors=True)
    return found


def finished_scores(entry: TaskEntry, step: int | None, folder: Path) -> TaskScores | None:
    """Return the scores of an earlier call of `evaluate_entry`; None if it did not finish."""
    path = _file(_work(entry, step, folder))
    if not path.exists():
        return None
    found = _scores(read_json(path), entry)
    if found is None:
        logger.warning("%s is corrupt; evaluating again.", path)
        path.unlink()
    return found


def write_output_scores(output: Path, entries: Sequence[TaskEntry], scores: Sequence[TaskScores]) -> None:
    """Write the scores of a trained model into its folder."""
    tables = {fingerprint(entry): found.as_table() for entry, found in zip(entries, scores, strict=True)}
    write_file(record_file(output / RESULTS), json.dumps(tables, indent=1, ensure_ascii=False) + "\n")


def output_scores(output: Path, entries: Sequence[TaskEntry]) -> tuple[TaskScores, ...]:
    """Return the scores in the folder of a trained model on those of these tasks that it was evaluated on."""
    tables = read_json(output / RESULTS)
    if not isinstance(tables, dict):
        return ()
    found = (_scores(tables.get(fingerprint(entry)), entry) for entry in entries)
    return tuple(scores for scores in found if scores is not None)


def _scores(table: object, entry: TaskEntry) -> TaskScores | None:
    """Read scores under the task's name of today; None if they cannot be read."""
    try:
        return replace(TaskScores.of_table(table), task=entry.title)  # type: ignore[arg-type]
    except (KeyError, TypeError, AttributeError, InputError):
        return None


def _work(entry: TaskEntry, step: int | None, folder: Path) -> Path:
    """Return the folder for unfinished work, named by what the scores depend on."""
    moment = "end" if step is None else f"step{step}"
    return folder / f"{entry.task}-{moment}-{fingerprint(entry)[:12]}"


def _file(work: Path) -> Path:
    return work.with_name(f"{work.name}.json")
