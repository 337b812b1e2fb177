"""Parameters in another precision, and nothing else of a model."""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["with_parameters_in"]


def with_parameters_in(model: Any, dtype: torch.dtype) -> Any:
    """The model with its parameters in a dtype, as `from_pretrained` leaves it.

    Buffers such as rotary frequencies stay as they were made: in bfloat16 far positions would fall together.
    """
    for parameter in model.parameters():
        parameter.data = parameter.data.to(dtype)
    return model
