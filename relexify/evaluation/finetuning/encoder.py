"""The encoder that is fine-tuned: decoders refused, and a new layer for the task on top."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import AutoModelForSequenceClassification, AutoModelForTokenClassification
from transformers.utils import logging as transformers_logging

from relexify.errors import InputError, first_line
from relexify.evaluation.finetuning.problem import Problem
from relexify.pretrained.architecture import architecture_in_config
from relexify.pretrained.hub import must_be_local, own_code_message
from relexify.pretrained.loading import load_config, task_class

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
    loader = task_class(kind, encoder_config(model))
    try:
        with _hushed():
            learner, loaded = loader.from_pretrained(
                model,
                num_labels=len(problem.labels),
                id2label=dict(enumerate(problem.labels)),
                label2id={label: number for number, label in enumerate(problem.labels)},
                problem_type=None if tags else "regression" if number else "single_label_classification",
                dtype=torch.float32,
                output_loading_info=True,
                trust_remote_code=False,
                local_files_only=must_be_local(str(model)),
            )
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        message = f"{model} cannot be loaded ({first_line(error)}): check that it is complete"
        raise InputError(own_code_message(model, error) or message) from error
    inner = f"{learner.base_model_prefix}."
    missing = sorted(name for name in loaded["missing_keys"] if name.startswith(inner) and "pooler" not in name)
    if missing:
        raise InputError(
            f"{model} lacks {len(missing)} parameters of its encoder ({missing[0]}, …): "
            "check that config.json and the weights belong together"
        )
    return learner


@contextmanager
def _hushed() -> Iterator[None]:
    """Without transformers' report that the layers for the task are new."""
    level = transformers_logging.get_verbosity()
    transformers_logging.set_verbosity_error()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(level)
