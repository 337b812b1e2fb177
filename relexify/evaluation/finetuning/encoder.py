"""Load an encoder to fine-tune, with a new layer for the task."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors import SafetensorError
from transformers import (
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    PreTrainedConfig,
    PreTrainedModel,
)
from transformers.utils import logging as transformers_logging

from relexify.errors import InputError, first_line
from relexify.evaluation.finetuning.problem import Problem
from relexify.pretrained.architecture import architecture_in_config
from relexify.pretrained.hub import must_be_local, own_code_message
from relexify.pretrained.loading import load_config, task_class

__all__ = ["encoder_config", "load_classifier"]


def encoder_config(model: str | Path) -> PreTrainedConfig:
    """Return the config of an encoder.

    Raises:
        InputError: There is no such model, or it is a decoder or an encoder-decoder.
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


def load_classifier(model: str | Path, problem: Problem) -> PreTrainedModel:
    """Load an encoder in float32 with a new output layer, which classifies texts or words, or predicts a number.

    Raises:
        InputError: It cannot be loaded, or lacks parameters.
    """
    if problem.task.predicts == "tags":
        plain, problem_type = AutoModelForTokenClassification, None
    else:
        plain = AutoModelForSequenceClassification
        problem_type = "regression" if problem.task.predicts == "number" else "single_label_classification"
    loader = task_class(plain, encoder_config(model))
    verbosity = transformers_logging.get_verbosity()
    transformers_logging.set_verbosity_error()  # it would warn that the new layer is untrained
    try:
        classifier, loaded = loader.from_pretrained(
            model,
            num_labels=len(problem.labels),
            id2label=dict(enumerate(problem.labels)),
            label2id={label: number for number, label in enumerate(problem.labels)},
            problem_type=problem_type,
            dtype=torch.float32,
            output_loading_info=True,
            trust_remote_code=False,
            local_files_only=must_be_local(str(model)),
        )
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        message = f"{model} cannot be loaded ({first_line(error)}): check that it is complete"
        raise InputError(own_code_message(model, error) or message) from error
    finally:
        transformers_logging.set_verbosity(verbosity)
    inner = f"{classifier.base_model_prefix}."
    # Language models have no pooler, so a classifier with one starts with an untrained pooler.
    missing = sorted(name for name in loaded["missing_keys"] if name.startswith(inner) and "pooler" not in name)
    if missing:
        raise InputError(
            f"{model} lacks {len(missing)} parameters of its encoder ({missing[0]}, …): "
            "check that config.json and the weights belong together"
        )
    return classifier
