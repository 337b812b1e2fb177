"""A language-modelling head for a model that was saved without one."""

from __future__ import annotations

import copy
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_MASKED_LM_MAPPING_NAMES,
)

from relexify.errors import InputError
from relexify.pretrained.precision import cast_parameters

__all__ = ["add_head", "has_head"]


def has_head(config: Any) -> bool:
    """Whether a model was saved with a head of whatever kind; what its config leaves open is taken to have one."""
    names = getattr(config, "architectures", None) or []
    return not (names and all(str(name).endswith("Model") and not str(name).endswith("LMHeadModel") for name in names))


def add_head(model: Any, *, seed: int = 0) -> Any:
    """The same model with a new language-modelling head, which knows nothing until it is trained.

    The rows of the head are those of the embedding wherever the architecture ties them; the rest of it begins as its
    authors would begin. What the model has beyond its layers, such as BERT's pooler, is left behind.

    Args:
        model: A transformers model without a head; it stays as it is.
        seed: Of the new parameters.

    Returns:
        A masked language model where the architecture has one, else a causal one; in the same dtype.

    Raises:
        InputError: The architecture has no such head.
    """
    config = copy.deepcopy(model.config)
    kind = _kind(config, type(model).__name__)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # of the CPU alone, so that no GPU's state changes
        headed = kind.from_config(config, trust_remote_code=False)
    values = {name: tensor for name, tensor in model.state_dict().items() if not name.startswith("pooler.")}
    inner = headed.base_model
    missing, unexpected = inner.load_state_dict(values, strict=False)
    if lost := [*missing, *unexpected]:
        raise InputError(
            f"{type(model).__name__} is not built like the inside of {type(headed).__name__} ({lost[0]}): "
            "give a model of another class"
        )
    headed.tie_weights()
    return cast_parameters(headed, model.dtype).eval()


def _kind(config: Any, name: str) -> Any:
    """The class to load with; encoders first, since many of them have a head for either."""
    if not getattr(config, "is_encoder_decoder", False):
        if config.model_type in MODEL_FOR_MASKED_LM_MAPPING_NAMES and not getattr(config, "is_decoder", False):
            return AutoModelForMaskedLM
        if config.model_type in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
            return AutoModelForCausalLM
    raise InputError(f"there is no language-modelling head for {name}: give an encoder such as BERT, or a decoder")
