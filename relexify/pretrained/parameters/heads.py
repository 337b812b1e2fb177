"""Add a language-modelling head to a model that was saved without one."""

from __future__ import annotations

import copy

import torch
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM, PreTrainedConfig, PreTrainedModel
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_MASKED_LM_MAPPING_NAMES,
)

from relexify.errors import InputError
from relexify.pretrained.runtime.precision import cast_parameters

__all__ = ["add_head", "has_head"]


def has_head(config: PreTrainedConfig) -> bool:
    """Return whether a model was saved with a head of any type; True if its config names no class."""
    names = [str(name) for name in getattr(config, "architectures", None) or []]
    # `BertModel` has no head; `GPT2LMHeadModel` has one.
    headless = [name.endswith("Model") and not name.endswith("LMHeadModel") for name in names]
    return not (headless and all(headless))


def add_head(model: PreTrainedModel, *, seed: int = 0) -> PreTrainedModel:
    """Return a copy of a model with a new, untrained language-modelling head.

    If the architecture ties embeddings, the head shares the rows of the input embedding. All other parameters of the
    head are initialised as usual for the architecture. Unused parts of the model, such as BERT's pooler, are dropped.

    Args:
        model: A model without a head; it is not changed.
        seed: Random seed of the new parameters.

    Returns:
        A masked language model if the architecture has one, otherwise a causal language model, in the same dtype.

    Raises:
        InputError: The architecture has no language-modelling head.
    """
    config = copy.deepcopy(model.config)
    # Masked language models first, because many encoders also have a causal head.
    if not getattr(config, "is_encoder_decoder", False):
        if config.model_type in MODEL_FOR_MASKED_LM_MAPPING_NAMES and not getattr(config, "is_decoder", False):
            return _headed(model, AutoModelForMaskedLM, config, seed)
        if config.model_type in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
            return _headed(model, AutoModelForCausalLM, config, seed)
    raise InputError(
        f"there is no language-modelling head for {type(model).__name__}: give an encoder such as BERT, or a decoder"
    )


def _headed(model: PreTrainedModel, auto_class: type, config: PreTrainedConfig, seed: int) -> PreTrainedModel:
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # only for the CPU, so that no GPU state changes
        headed = auto_class.from_config(config, trust_remote_code=False)  # type: ignore[attr-defined]
    values = {name: tensor for name, tensor in model.state_dict().items() if not name.startswith("pooler.")}
    missing, unexpected = headed.base_model.load_state_dict(values, strict=False)
    if different := [*missing, *unexpected]:
        raise InputError(
            f"{type(model).__name__} does not have the same inner parameters as {type(headed).__name__} "
            f"({different[0]} differs): give a model of another class"
        )
    headed.tie_weights()
    return cast_parameters(headed, model.dtype).eval()
