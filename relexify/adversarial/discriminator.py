"""The discriminator: from which of two spaces does a vector come?

A perceptron with two hidden layers and Leaky-ReLU (3.1, TreLM). There is one for every game that is played side by
side, so every tensor has the games as its first dimension.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

__all__ = ["Discriminator", "build_discriminator"]


@dataclass(frozen=True, eq=False)
class Discriminator:
    """Its parameters.

    Attributes:
        weights: [games × d × h], [games × h × h] and [games × h × 1].
        biases: [games × 1 × h], [games × 1 × h] and [games × 1 × 1].
        slope: Of the Leaky-ReLU.
    """

    weights: tuple[torch.Tensor, ...]
    biases: tuple[torch.Tensor, ...]
    slope: float

    @property
    def parameters(self) -> tuple[torch.Tensor, ...]:
        """All that is trained."""
        return (*self.weights, *self.biases)

    def __call__(self, vectors: torch.Tensor) -> torch.Tensor:
        """The log-odds [games × n] that each of [games × n × d] comes from the target space."""
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            vectors = torch.nn.functional.leaky_relu(torch.baddbmm(bias, vectors, weight), self.slope)
        return torch.baddbmm(self.biases[-1], vectors, self.weights[-1]).squeeze(-1)


def build_discriminator(
    games: int, width: int, hidden: int, slope: float, generator: torch.Generator
) -> Discriminator:
    """Draw all parameters uniformly from ±1/√n, n being a layer's inputs, on the generator's device."""
    sizes = (width, hidden, hidden, 1)

    def draw(inputs: int, *shape: int) -> torch.Tensor:
        values = torch.rand(games, *shape, generator=generator, device=generator.device)
        return ((2 * values - 1) / math.sqrt(inputs)).requires_grad_()

    layers = list(zip(sizes[:-1], sizes[1:], strict=True))
    return Discriminator(
        tuple(draw(inputs, inputs, outputs) for inputs, outputs in layers),
        tuple(draw(inputs, 1, outputs) for inputs, outputs in layers),
        slope,
    )
