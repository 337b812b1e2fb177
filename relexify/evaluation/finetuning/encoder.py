"""Load an encoder to fine-tune, with a new layer for the task."""

from __future__ import annotations

from pathlib import Path

from transformers import PreTrainedConfig, PreTrainedModel

from relexify.errors import InputError
from relexify.evaluation.finetuning.problem import Problem
from relexify.evaluation.registry import TASKS
from relexify.pretrained.architecture import architecture_in_config, saved_class
from relexify.pretrained.loading import load_config, load_task_model

__all__ = ["encoder_config", "load_classifier"]


def encoder_config(model: str | Path, task: str) -> PreTrainedConfig:
    """Return the config of a model to fine-tune on a task.

    Raises:
        InputError: The model does not exist, or is a decoder or an encoder-decoder.
    """
    config = load_config(model)
    found = architecture_in_config(config)
    if found != "encoder":
        article = "an" if found == "encoder-decoder" else "a"
        advice = "leave the task out" if TASKS[task].probe is None else "probe it (probe = true)"
        raise InputError(
            f"the task {task} needs an encoder such as BERT, but {model} is {article} {found} "
            f"({saved_class(config)}): {advice}"
        )
    return config


def load_classifier(model: str | Path, problem: Problem) -> PreTrainedModel:
    """Load an encoder in float32 with a new output layer: for a class, a number, a choice, an answer, or tags.

    Raises:
        InputError: The model cannot be loaded, or lacks parameters.
    """
    prediction = problem.prediction
    return load_task_model(model, prediction.model_class, labels=problem.labels, problem_type=prediction.loss)
