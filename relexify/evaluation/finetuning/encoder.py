"""Load an encoder to fine-tune, with a new layer for the task."""

from __future__ import annotations

from pathlib import Path

from transformers import (
    AutoModelForMultipleChoice,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    PreTrainedConfig,
    PreTrainedModel,
)

from relexify.errors import InputError
from relexify.evaluation.finetuning.problem import Problem
from relexify.evaluation.registry import TASKS
from relexify.pretrained.architecture import architecture_in_config, saved_class
from relexify.pretrained.loading import load_config, load_task_model

__all__ = ["encoder_config", "load_classifier"]

_CLASSES = {
    "class": (AutoModelForSequenceClassification, "single_label_classification"),
    "number": (AutoModelForSequenceClassification, "regression"),
    "choice": (AutoModelForMultipleChoice, None),
    "answer": (AutoModelForQuestionAnswering, None),
    "tags": (AutoModelForTokenClassification, None),
}
"""For what a task predicts: the class of the model, and the type of its loss as in the config of transformers."""


def encoder_config(model: str | Path, task: str) -> PreTrainedConfig:
    """Return the config of a model to fine-tune on a task.

    Raises:
        InputError: There is no such model, or it is a decoder or an encoder-decoder.
    """
    config = load_config(model)
    found = architecture_in_config(config)
    if found != "encoder":
        article = "an" if found == "encoder-decoder" else "a"
        advice = "leave the task out" if TASKS[task].probe is None else "probe it (probe = true)"
        raise InputError(
            f"the task {task} needs an encoder such as BERT, and {model} is {article} {found} "
            f"({saved_class(config)}): {advice}"
        )
    return config


def load_classifier(model: str | Path, problem: Problem) -> PreTrainedModel:
    """Load an encoder in float32 with a new output layer: for a class, a number, a choice, an answer, or tags.

    Raises:
        InputError: It cannot be loaded, or lacks parameters.
    """
    auto_class, problem_type = _CLASSES[problem.task.predicts]
    return load_task_model(model, auto_class, labels=problem.labels, problem_type=problem_type)
