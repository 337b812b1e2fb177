"""The method `token-distillation` of a transfer.

Commands and recipes read the registry, so importing this module must not load torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from relexify.errors import check_number, check_positive
from relexify.methods.registry import METHODS, Initialisation, Method

if TYPE_CHECKING:
    from relexify.methods.inputs import Inputs

__all__ = ["Distillation"]


@dataclass(frozen=True)
class Distillation:
    """Options of the method `token-distillation`.

    Attributes:
        distillation_steps: Number of training steps.
        distillation_batch: Number of lines of text per step.
        distillation_length: Maximum number of target tokens of a line; the rest of the line is not read.
        distillation_rate: Learning rate of Adam at the first step, relative to the standard deviation of the rows; it
            decreases linearly to zero.
    """

    distillation_steps: int = 500
    distillation_batch: int = 16
    distillation_length: int = 128
    distillation_rate: float = 0.02

    def __post_init__(self) -> None:
        check_number("distillation_steps", self.distillation_steps)
        check_number("distillation_batch", self.distillation_batch)
        check_number("distillation_length", self.distillation_length, 2)
        check_positive("distillation_rate", self.distillation_rate)


def _build(inputs: Inputs) -> Initialisation:
    from relexify.systems.distillation.distil import distilled

    return distilled(inputs, inputs.own_options(Distillation))


METHODS.add(
    "token-distillation",
    Method(
        becomes="the row that gives the hidden states of its source pieces",
        evidence="text in the target language; a GPU, or much patience",
        paper="Dobler et al. 2025",
        build=_build,
        needs=("model",),
        uses=("overrides",),
        options=Distillation,
        revision=4,
    ),
)
