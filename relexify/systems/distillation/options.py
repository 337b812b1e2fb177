"""Options of token distillation."""

from __future__ import annotations

from dataclasses import dataclass

from relexify.errors import check_number, check_positive

__all__ = ["Distillation"]


@dataclass(frozen=True)
class Distillation:
    """Options of the method `token-distillation`.

    Attributes:
        distillation_steps: Number of training steps.
        distillation_batch: Number of lines of text per step.
        distillation_length: Largest number of target tokens of a line; the rest of the line is not read.
        distillation_rate: Learning rate of Adam at the first step, relative to the standard deviation of the rows; it
            falls linearly to zero.
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
