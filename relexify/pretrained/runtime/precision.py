"""Number formats for computing and for storing parameters. Importing this module does not import torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeVar

if TYPE_CHECKING:
    import torch
    from torch import nn

__all__ = ["Precision", "cast_parameters", "computes_in_bfloat16"]

Precision = Literal["auto", "float32", "bfloat16"]
"""The option `precision`: `auto` is bfloat16 on a GPU that supports it, and float32 otherwise."""

Module = TypeVar("Module", bound="nn.Module")


def computes_in_bfloat16(precision: Precision) -> bool:
    """Return whether a precision means mixed bfloat16 on this machine."""
    import torch

    if precision == "auto":
        return torch.cuda.is_available() and torch.cuda.is_bf16_supported()
    return precision == "bfloat16"


def cast_parameters(model: Module, dtype: torch.dtype) -> Module:
    """Cast the parameters of a model in place, as `from_pretrained` does, and return it.

    Buffers such as rotary frequencies keep their dtype: in bfloat16, distant positions would become equal.
    """
    for parameter in model.parameters():
        parameter.data = parameter.data.to(dtype)
    return model
