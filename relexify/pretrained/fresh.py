"""A model that knows nothing, of the shape of another or of any size."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM

from relexify.errors import InputError, first_line
from relexify.pretrained.loading import load_config, model_class
from relexify.pretrained.precision import cast_parameters

__all__ = ["fresh_model", "fresh_twin"]


def fresh_model(name: str | Path, changes: Mapping[str, Any], *, seed: int = 0) -> Any:
    """An untrained model of a known kind and any size; the weights of that model are not read.

    Args:
        name: A model, as for `load_model`, for its architecture and config.
        changes: Fields of the config and their values, such as `{"num_hidden_layers": 8}`.
        seed: Of the parameters.

    Raises:
        InputError: There is no such model, no such field, or no model of that size.
    """
    config = load_config(name)
    made = model_class(config)
    if made is AutoModelForCausalLM:
        raise InputError(
            f"the config of {name} does not say what kind of model it is for: name its class in its config.json, "
            'such as "architectures": ["BertForMaskedLM"]'
        )
    for field, value in changes.items():
        if not hasattr(config, field):
            raise InputError(f"the config of {name} has no field {field!r} to change: see its config.json")
        _change(config, field, value)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return made(config).eval()
    except (ValueError, TypeError, ZeroDivisionError, RuntimeError) as error:
        raise InputError(f"there can be no {config.model_type} of the size asked for ({error})") from error


def _change(config: Any, field: str, value: Any) -> None:
    was = getattr(config, field)
    if type(value) is int and type(was) is int and value < 1 <= was and not field.endswith("_id"):
        raise InputError(
            f"{field} = {value} is not possible in a {config.model_type}, where it is {was}: give 1 or more"
        )
    try:
        setattr(config, field, value)
    except Exception as error:  # what checks the fields of a config raises errors of its own
        raise InputError(
            f"{field} = {value!r} is not possible in a {config.model_type} ({first_line(error)})"
        ) from error


def fresh_twin(model: Any, *, seed: int = 0) -> Any:
    """The same architecture and vocabulary with random parameters, as its authors would begin; in the same dtype.

    Args:
        model: A transformers model; it stays as it is.
        seed: Of the parameters.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        twin = type(model)(copy.deepcopy(model.config))
    with torch.no_grad():
        for name, buffer in model.named_buffers():  # such as the codes of sub-embeddings: how it is built, not learnt
            twin.get_buffer(name).copy_(buffer)
    return cast_parameters(twin, model.dtype).eval()
