"""The method `token-distillation` of a transfer.

Commands and recipes read the registry, so importing this module must not load torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from relexify.methods.registry import METHODS, Initialisation, Method
from relexify.systems.distillation.options import Distillation

if TYPE_CHECKING:
    from relexify.methods.inputs import Inputs


def _build(inputs: Inputs) -> Initialisation:
    from relexify.systems.distillation.distil import distilled

    return distilled(inputs, inputs.own_options(Distillation))


METHODS.add(
    "token-distillation",
    Method(
        becomes="the row that gives the hidden states of its source pieces",
        evidence="text in the target language; slow without a GPU",
        paper="Dobler et al. 2025",
        build=_build,
        needs=("model",),
        uses=("overrides",),
        options=Distillation,
        revision=4,
    ),
)
