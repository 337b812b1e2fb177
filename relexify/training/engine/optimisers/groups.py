"""Divide the trained parameters of a model into groups, each with its own learning rate, for `MuonAdamW`.

    inner matrices      Muon     `Rates.inner`; or AdamW, if requested
    lexical parameters  AdamW    `Rates.embeddings`: embedding, head and output bias
    all others          AdamW    `Rates.others`: norms, biases, position embeddings, magnitudes of DoRA

Weight decay applies to everything but biases and norms, as in the Trainer; the magnitudes of DoRA are norms too.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any

from torch import nn
from transformers import PreTrainedModel, Trainer
from transformers.pytorch_utils import Conv1D

from relexify.training.protocol import lexical_parameter_ids
from relexify.training.rates import Rates

__all__ = ["decaying_parameters", "parameter_groups"]

_FUSED = re.compile(r"(?:^|[._])(?:c_attn|w?qkv)", re.IGNORECASE)
"""Names of layers whose outputs are query, key and value, one after the other. `query_key_value` (GPT-NeoX, Bloom,
Falcon) is not among them, because its outputs alternate between the three."""


def parameter_groups(
    model: PreTrainedModel, rates: Rates, weight_decay: float, *, muon: bool = True
) -> list[dict[str, Any]]:
    """Return the groups of the parameters that require a gradient; the first ones are those of the inner matrices.

    Args:
        model: The model, before it is wrapped or distributed.
        rates: Peak learning rates.
        weight_decay: Weight decay.
        muon: Whether inner matrices are trained with Muon.
    """
    lexical = lexical_parameter_ids(model)
    looked_up = {id(part.weight) for part in model.modules() if isinstance(part, nn.Embedding)}
    layers = {
        id(part.weight): (name, part) for name, part in model.named_modules() if isinstance(part, nn.Linear | Conv1D)
    }
    decaying = set(decaying_parameters(model))

    inner: defaultdict[tuple[bool, int], list[nn.Parameter]] = defaultdict(list)
    others: defaultdict[tuple[float, float], list[nn.Parameter]] = defaultdict(list)
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        # The biases of experts are stacked to two dimensions, but are not matrices; like all biases, they do not decay.
        is_matrix = parameter.ndim in (2, 3) and min(parameter.shape[-2:]) > 1 and name in decaying
        if is_matrix and id(parameter) not in lexical | looked_up:
            inner[_layout(*layers.get(id(parameter), (name, None)))].append(parameter)
        else:
            rate = rates.embeddings if id(parameter) in lexical else rates.others
            others[rate, weight_decay if name in decaying else 0.0].append(parameter)
    return [
        *(
            {
                "params": parameters,
                "lr": rates.inner,
                "weight_decay": weight_decay,
                "muon": muon,
                "transposed": transposed,
                "parts": parts,
            }
            for (transposed, parts), parameters in inner.items()
        ),
        *({"params": parameters, "lr": rate, "weight_decay": decay} for (rate, decay), parameters in others.items()),
    ]


def decaying_parameters(model: nn.Module) -> list[str]:
    """Return the names of the parameters that weight decay applies to."""
    # Magnitudes are the norms of the rows of a matrix: with decay, the matrix itself would shrink, which is kept.
    names = Trainer.get_decay_parameter_names(None, model)
    return [name for name in names if "lora_magnitude_vector" not in name.split(".")]


def _layout(name: str, layer: nn.Linear | Conv1D | None) -> tuple[bool, int]:
    """Return whether the weight of a layer is stored as inputs × outputs, and how many matrices its outputs are."""
    if layer is None:
        return False, 1
    transposed = isinstance(layer, Conv1D)
    outputs, inputs = layer.weight.mT.shape if transposed else layer.weight.shape
    is_fused = outputs == 3 * inputs and _FUSED.search(name.rpartition(".")[2]) is not None
    return transposed, 3 if is_fused else 1
