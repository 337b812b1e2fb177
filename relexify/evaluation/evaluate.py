"""Evaluate a model on a task, by training it, or with a linear probe."""

from __future__ import annotations

import logging
import math
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import cast

from relexify.device import resolve_device
from relexify.errors import InputError
from relexify.evaluation.data.files import TaskData, TaskFiles, read_task
from relexify.evaluation.finetuning.encoder import encoder_config
from relexify.evaluation.finetuning.problem import find_labels
from relexify.evaluation.finetuning.run import fine_tune
from relexify.evaluation.options import EpochTraining, Evaluation, Probing
from relexify.evaluation.registry import TASKS
from relexify.evaluation.results import Candidate, SeedResult, TaskResult
from relexify.grafting import check_own_tokenizer
from relexify.pretrained.languages import language_folder, needs_language
from relexify.pretrained.loading import load_model, load_tokenizer
from relexify.pretrained.names import resolve

__all__ = ["check_evaluation", "check_task_model", "evaluate_task"]

logger = logging.getLogger(__name__)


def evaluate_task(model: str | Path, files: TaskFiles, options: Evaluation, *, folder: str | Path) -> TaskResult:
    """Evaluate a model on a task, by training it once for every seed or with a linear probe.

    Args:
        model: A folder, a Hub name or a packaged model.
        files: The files of the task.
        options: The task and its training options.
        folder: The folder for finished seeds and checkpoints; the same call resumes from it.

    Raises:
        InputError: A file is invalid, or the model cannot be evaluated on the task.
        VocabularyError: The tokenizer does not belong to the model.
    """
    device = resolve_device(options.device)
    # `through` is a model, unless `model` is bilingual and `language` selects the language to train in: then `through`
    # is its other language.
    two_languages = options.language is not None and options.through is not None and needs_language(model)
    with (
        language_folder(model, options.language) as trained,
        language_folder(model, options.through) if two_languages else nullcontext(options.through) as through,
    ):
        for each in (trained, through):
            if each is not None:
                check_own_tokenizer(each)
        options = replace(options, device=device, through=None if through is None else str(through))
        data = _read(files, options)
        if repeated := data.repeated_tests:
            total = sum(map(len, data.tests.values()))
            logger.warning("%s: %d of %d test examples are also in the training data", options.task, repeated, total)
        return _search(resolve(trained), data, options, Path(folder))


def check_evaluation(model: str | Path, files: TaskFiles, options: Evaluation) -> None:
    """Validate, without training anything, that a model can be evaluated on a task.

    Raises:
        InputError: A file is invalid, or the model cannot be evaluated on the task.
        MissingExtra: The task needs a package that is not installed.
    """
    check_task_model(model, options)
    data = _read(files, options)
    if TASKS[options.task].needs_encoder and not options.probe:
        find_labels(options.task, data)


def check_task_model(model: str | Path, options: Evaluation) -> None:
    """Validate that a model can be evaluated on a task: fine-tuning needs an encoder, the others take any model.

    Raises:
        InputError: The model does not exist, or is a decoder or an encoder-decoder.
    """
    if TASKS[options.task].needs_encoder and not options.probe:
        encoder_config(model, options.task)


def _search(model: str, data: TaskData, options: Evaluation, folder: Path) -> TaskResult:
    """Evaluate with all seeds; if there are several learning rates or batches, first choose with the first seed."""
    if len(options.candidates) == 1:
        return _evaluate(model, data, options.candidates[0], folder)
    tried, folders = [], []
    for candidate in options.candidates:
        training = cast("EpochTraining", candidate.training)  # `Evaluation` rejects a search of probes
        folders.append(folder / f"rate-{training.learning_rate:g}-batch-{training.batch}")
        first = replace(candidate, seeds=options.seeds[:1], keep_encoders=False)
        (result,) = _evaluate(model, data, first, folders[-1]).per_seed
        dev = math.nan if result.dev is None else result.dev.value
        tried.append(Candidate(training.learning_rate, training.batch, dev))
    best = max(range(len(tried)), key=lambda index: tried[index].dev)  # the first if several are equal
    # In the candidate's own folder, where the first seed is already finished.
    chosen = _evaluate(model, data, options.candidates[best], folders[best])
    return replace(chosen, search=tuple(tried))


def _evaluate(model: str, data: TaskData, options: Evaluation, folder: Path) -> TaskResult:
    """Evaluate with one learning rate and batch."""
    task, training = TASKS[options.task], options.training
    if task.probe is not None and isinstance(training, Probing):
        loaded, tokenizer = load_model(model).to(options.device), load_tokenizer(model)
        by_test = {}
        for name, test in data.tests.items():
            score = task.probe(loaded, tokenizer, replace(data, test=test), training)
            by_test[name] = SeedResult(0, (score,))  # a probe is deterministic: it has one seed
        return TaskResult((SeedResult.over_tests(0, by_test),))
    if task.evaluate is not None:
        return task.evaluate(model, data, options, folder)
    return fine_tune(
        model,
        options.task,
        data,
        training,  # type: ignore[arg-type]  # all remaining tasks are fine-tuned
        seeds=options.seeds,
        folder=folder,
        through=options.through,
        keep_encoders=options.keep_encoders,
    )


def _read(files: TaskFiles, options: Evaluation) -> TaskData:
    if len(options.candidates) > 1 and files.dev is None:
        raise InputError(
            "a search over learning rates and batches needs development data to choose the best: give it (`dev`)"
        )
    return read_task(options.task, files, examples=options.examples)
