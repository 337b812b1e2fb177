"""The encoder that is fine-tuned: decoders refused, and a new layer for the task on top."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import AutoModelForSequenceClassification, AutoModelForTokenClassification

from relexify.errors import InputError
from relexify.evaluation.finetuning.problem import Problem
from relexify.pretrained.architecture import architecture_in_config
from relexify.pretrained.loading import load_config, load_task_model

__all__ = ["encoder_config", "with_head"]


def encoder_config(model: str | Path) -> Any:
    """The config of an encoder.

    Raises:
        InputError: There is no model, or it is a decoder or an encoder-decoder.
    """
    config = load_config(model)
    found = architecture_in_config(config)
    if found != "encoder":
        names = getattr(config, "architectures", None) or [config.model_type]
        article = "an" if found == "encoder-decoder" else "a"
        raise InputError(
            f"{model} is {article} {found} ({names[0]}): "
            "an encoder is needed to fine-tune on tasks, such as BERT or RoBERTa"
        )
    return config


def with_head(model: str | Path, problem: Problem) -> Any:
    """The encoder with a new layer for the task, in float32.

    Raises:
        InputError: It cannot be loaded, or lacks parameters.
    """
    tags, number = problem.task.predicts == "tags", problem.task.predicts == "number"
    kind = AutoModelForTokenClassification if tags else AutoModelForSequenceClassification
    encoder_config(model)
    problem_type = None if tags else "regression" if number else "single_label_classification"
    return load_task_model(model, kind, labels=problem.labels, problem_type=problem_type)
