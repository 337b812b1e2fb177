"""Train without dropout, which hinders learning as long as no text is seen twice."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

__all__ = ["without_dropout"]


@contextmanager
def without_dropout(model: nn.Module) -> Iterator[None]:
    """Set every dropout rate of a model to zero, and restore it afterwards; the config keeps the rates.

    Rates are those of dropout modules, and numbers with "drop" in their name that other modules keep for themselves.
    Evaluation mode would not do: transformers recomputes activations in training mode alone.
    """
    rates = [
        (module, name, value)
        for module in model.modules()
        for name, value in vars(module).items()
        if isinstance(value, float)
        and ("drop" in name or (name == "p" and isinstance(module, nn.modules.dropout._DropoutNd)))
    ]
    for module, name, _ in rates:
        setattr(module, name, 0.0)
    try:
        yield
    finally:
        for module, name, value in rates:
            setattr(module, name, value)
