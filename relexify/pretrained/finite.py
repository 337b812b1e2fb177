"""Whether the weights of a model are numbers."""

from __future__ import annotations

import torch
from transformers import PreTrainedModel

from relexify.errors import InputError

__all__ = ["check_finite"]


def check_finite(model: PreTrainedModel) -> None:
    """Validate that no parameter has NaN or infinite values.

    This reads every parameter, so call it where they are read anyway: a large model may be mapped from files.

    Raises:
        InputError: One has.
    """
    for name, parameter in model.named_parameters():
        # Least and largest value: one pass and no copy, and both are NaN if any value is.
        if parameter.numel() and not torch.stack(parameter.detach().aminmax()).isfinite().all():
            raise InputError(
                f"the parameter {name} of {type(model).__name__} has NaN or infinite values: the weights are damaged, "
                "or their training failed; give an intact copy of the model, or an earlier checkpoint"
            )
