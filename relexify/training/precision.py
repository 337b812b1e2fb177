"""The number format that parameters are trained in: those of the vocabulary in float32, inner ones as requested."""

from __future__ import annotations

from typing import TypeVar

import torch
from transformers import PreTrainedModel

from relexify.training.options import Training
from relexify.training.protocol import lexical_parameter_ids

__all__ = ["cast_for_training"]

Model = TypeVar("Model", bound=PreTrainedModel)


def cast_for_training(model: Model, training: Training) -> Model:
    """Cast the parameters of a model in place, and return it.

    Parameters of the vocabulary stay in float32 in any case: many of their updates are too small for bfloat16.
    """
    if training.inner_precision == "float32":
        model.float()
        return model
    lexical = lexical_parameter_ids(model)
    for parameter in model.parameters():
        parameter.data = parameter.data.to(torch.float32 if id(parameter) in lexical else torch.bfloat16)
    return model
