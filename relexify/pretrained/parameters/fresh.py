"""Build untrained models: of any size, or with the same shape as another model."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import AutoModelForCausalLM, PreTrainedModel

from relexify.errors import InputError, first_line
from relexify.pretrained.loading import load_config, model_class
from relexify.pretrained.runtime.precision import cast_parameters

__all__ = ["fresh_model", "fresh_twin"]


def fresh_model(name: str | Path, changes: Mapping[str, Any], *, seed: int = 0) -> PreTrainedModel:
    """Build an untrained model of any size, with the architecture of an existing model; no weights are read.

    Args:
        name: A model, as for `load_model`, whose architecture and config are used.
        changes: Fields of the config and their values, such as `{"num_hidden_layers": 8}`.
        seed: Random seed of the parameters.

    Raises:
        InputError: The model or a field of its config does not exist, or a model of that size cannot be built.
    """
    config = load_config(name)
    loader = model_class(config)
    if loader is AutoModelForCausalLM:
        raise InputError(
            f"the config of {name} names no model class: add one to its config.json, such as "
            '"architectures": ["BertForMaskedLM"]'
        )
    for field, value in changes.items():
        if not hasattr(config, field):
            raise InputError(f"the config of {name} has no field {field!r} to change: see its config.json")
        before = getattr(config, field)
        # Sizes and numbers of layers are positive; ids may be 0.
        if type(value) is int and type(before) is int and value < 1 <= before and not field.endswith("_id"):
            raise InputError(
                f"{field} = {value} is not possible in a {config.model_type} (it was {before}): give 1 or more"
            )
        try:
            setattr(config, field, value)
        except Exception as error:  # config classes raise their own types of exceptions
            reason = first_line(error)
            raise InputError(f"{field} = {value!r} is not possible in a {config.model_type} ({reason})") from error
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = loader(config).eval()
            _draw_zero_rows(model)
            return model
    except (ValueError, TypeError, ZeroDivisionError, RuntimeError) as error:
        raise InputError(f"a {config.model_type} of the requested size cannot be built ({error})") from error


def fresh_twin(model: PreTrainedModel, *, seed: int = 0) -> PreTrainedModel:
    """Build a model of the same architecture, vocabulary and dtype with newly initialised parameters.

    Args:
        model: A transformers model; it is not changed.
        seed: Random seed of the parameters.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        twin = type(model)(copy.deepcopy(model.config))
    with torch.no_grad():
        for name, buffer in model.named_buffers():  # for example, the codes of sub-embeddings
            twin.get_buffer(name).copy_(buffer)
    return cast_parameters(twin, model.dtype).eval()


def _draw_zero_rows(model: PreTrainedModel) -> None:
    """Initialise zero rows of the embedding, such as the padding row, like the other rows, in place.

    transformers initialises the padding row with zeros, but the padding token may also separate paragraphs. At a zero
    row, the gradient of RMSNorm is so large that training diverges within a few steps.
    """
    embedding = model.get_input_embeddings()
    if isinstance(embedding, nn.Embedding):
        with torch.no_grad():
            zero = ~embedding.weight.any(dim=1)
            drawn = torch.randn(int(zero.sum()), embedding.embedding_dim)
            embedding.weight[zero] = drawn * embedding.weight[~zero].std()
