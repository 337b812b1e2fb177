"""Train without the dropout of a model's config."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel

__all__ = ["without_dropout"]


@contextmanager
def without_dropout(model: PreTrainedModel) -> Iterator[None]:
    """Set every dropout rate of a model to zero, and restore it afterwards; the model's config keeps the rates.

    Rates are attributes of dropout modules, numbers with "drop" in their name that other modules have, and entries of
    the config that layers read in `forward` (Falcon, Persimmon); these layers get a copy of the config.
    Evaluation mode would not do: transformers recomputes activations in training mode alone.
    """
    changes: list[tuple[nn.Module, str, Any, Any]] = []  # module, attribute, value, value without dropout
    configs: dict[int, PreTrainedConfig] = {}  # copies without dropout, by the identity of the original
    for module in model.modules():
        for name, value in vars(module).items():
            if isinstance(value, float) and (_is_rate(name) or (name == "p" and _is_dropout(module))):
                changes.append((module, name, value, 0.0))
            # The config of a model itself is saved in checkpoints, so it stays as it is.
            elif isinstance(value, PreTrainedConfig) and not isinstance(module, PreTrainedModel):
                if id(value) not in configs:
                    configs[id(value)] = _without_rates(value)
                changes.append((module, name, value, configs[id(value)]))
    for module, name, _, zero in changes:
        setattr(module, name, zero)
    try:
        yield
    finally:
        for module, name, value, _ in changes:
            setattr(module, name, value)


def _is_rate(name: str) -> bool:
    return "drop" in name


def _is_dropout(module: nn.Module) -> bool:
    return isinstance(module, nn.modules.dropout._DropoutNd)


def _without_rates(config: PreTrainedConfig) -> PreTrainedConfig:
    """Return a copy of a config with all dropout rates zero."""
    copied = copy.copy(config)
    for name, value in vars(config).items():
        if _is_rate(name) and isinstance(value, float):
            setattr(copied, name, 0.0)
    return copied
