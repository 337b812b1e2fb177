"""Evaluate a model on a task, by training it or with a linear probe."""

from __future__ import annotations

import logging
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import torch

from relexify.evaluation.data.files import TaskFiles, read_task
from relexify.evaluation.finetuning.encoder import encoder_config
from relexify.evaluation.finetuning.problem import find_labels
from relexify.evaluation.finetuning.run import fine_tune
from relexify.evaluation.options import Evaluation, Probing
from relexify.evaluation.registry import TASKS
from relexify.evaluation.results import SeedResult, TaskResult
from relexify.pretrained.languages import language_folder, needs_language
from relexify.pretrained.loading import load_model, load_tokenizer, resolve

__all__ = ["check_evaluation", "check_model", "evaluate_task"]

logger = logging.getLogger(__name__)


def evaluate_task(model: str | Path, files: TaskFiles, options: Evaluation, *, folder: str | Path) -> TaskResult:
    """Evaluate a model on a task, by training it once for every seed or with a linear probe.

    Args:
        model: A folder or a name.
        files: The data.
        options: The task, and how.
        folder: For finished seeds and checkpoints; the same call resumes from it.

    Raises:
        InputError: A file is invalid, or the model cannot be evaluated on the task.
    """
    device = options.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    task = TASKS[options.task]
    # `through` names a language only if the model is bilingual and `language` chooses the one to train in.
    two_languages = options.language is not None and options.through is not None and needs_language(model)
    with (
        language_folder(model, options.language) as trained,
        language_folder(model, options.through) if two_languages else nullcontext(options.through) as through,
    ):
        options = replace(options, device=device, through=None if through is None else str(through))
        data = read_task(options.task, files, examples=options.examples)
        if repeated := data.repeated_tests:
            logger.warning(
                "%s: %d of %d test examples are in the training data too.", options.task, repeated, len(data.test)
            )
        name = resolve(trained)
        probing = options.training
        if task.probe is not None and isinstance(probing, Probing):
            score = task.probe(load_model(name).to(device), load_tokenizer(name), data, probing)
            return TaskResult((SeedResult(0, (score,)),))
        if task.evaluate is not None:
            return task.evaluate(name, data, options, Path(folder))
        return fine_tune(
            name,
            options.task,
            data,
            options.training,  # type: ignore[arg-type]  # those of a task that is fine-tuned
            seeds=options.seeds,
            folder=Path(folder),
            through=options.through,
        )


def check_evaluation(model: str | Path, files: TaskFiles, options: Evaluation) -> None:
    """Validate, without training anything, that a model can be evaluated on a task.

    Raises:
        InputError: A file is invalid, or the model cannot be evaluated on the task.
        MissingExtra: The task needs a package that is not installed.
    """
    check_model(model, options)
    data = read_task(options.task, files, examples=options.examples)
    if TASKS[options.task].needs_encoder and not options.probe:
        find_labels(options.task, data)


def check_model(model: str | Path, options: Evaluation) -> None:
    """Validate that a model can be trained for a task: only encoders are fine-tuned, all models can be probed or parse.

    Raises:
        InputError: There is no such model, or it is a decoder or an encoder-decoder.
    """
    if TASKS[options.task].needs_encoder and not options.probe:
        encoder_config(model, options.task)
