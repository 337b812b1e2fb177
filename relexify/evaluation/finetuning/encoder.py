"""The encoder that is fine-tuned: decoders refused, and a new layer for the task on top."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import AutoConfig, AutoModelForSequenceClassification, AutoModelForTokenClassification
from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES
from transformers.utils import logging as transformers_logging

from relexify.errors import InputError
from relexify.evaluation.finetuning.problem import Problem
from relexify.pretrained.hub import check_name, must_be_local, own_code_message
from relexify.pretrained.kinds import kind_of_folder
from relexify.pretrained.loading import load_config, task_class

__all__ = ["encoder_config", "with_head"]


def encoder_config(model: str | Path) -> Any:
    """The config of an encoder.

    Raises:
        InputError: There is no model, or it is a decoder or an encoder-decoder.
    """
    check_name(model)
    kind = kind_of_folder(model)
    if kind is not None and kind.is_encoder:
        return load_config(model)
    try:
        config = AutoConfig.from_pretrained(model, trust_remote_code=False, local_files_only=must_be_local(str(model)))
    except (OSError, ValueError, KeyError) as error:
        message = f"{model} holds no model that can be loaded ({_first_line(error)}): check the name"
        raise InputError(own_code_message(model, error) or message) from error
    names = [str(name) for name in getattr(config, "architectures", None) or []]
    decodes = getattr(config, "is_decoder", False) or any("CausalLM" in name or "LMHead" in name for name in names)
    if getattr(config, "is_encoder_decoder", False):
        found = "an encoder-decoder"
    elif decodes or config.model_type not in MODEL_FOR_MASKED_LM_MAPPING_NAMES:
        found = "a decoder"
    else:
        return config
    raise InputError(
        f"{model} is {found} ({names[0] if names else config.model_type}): "
        "an encoder is needed to fine-tune on tasks, such as BERT or RoBERTa"
    )


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
        message = f"{model} cannot be loaded ({_first_line(error)}): check that it is complete"
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


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
