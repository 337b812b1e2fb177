"""The discriminator: from which of two spaces does a vector come?"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch.nn.functional import leaky_relu

__all__ = ["Discriminator", "build_discriminator"]


@dataclass(frozen=True, eq=False)
class Discriminator:
    """A perceptron with two hidden layers and Leaky-ReLU (3.1, TreLM).

    Attributes:
        weights: [d × h], [h × h] and [h × 1].
        biases: [h], [h] and [1].
        slope: Of the Leaky-ReLU, left of zero.
    """

    weights: tuple[torch.Tensor, ...]
    biases: tuple[torch.Tensor, ...]
    slope: float

    @property
    def parameters(self) -> tuple[torch.Tensor, ...]:
        """All that is trained."""
        return (*self.weights, *self.biases)

    def __call__(self, vectors: torch.Tensor) -> torch.Tensor:
        """The log-odds [n] that each of [n × d] comes from the target space."""
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            vectors = leaky_relu(torch.addmm(bias, vectors, weight), self.slope)
        return torch.addmm(self.biases[-1], vectors, self.weights[-1]).squeeze(-1)


def build_discriminator(width: int, hidden: int, slope: float, generator: torch.Generator) -> Discriminator:
    """Draw all parameters uniformly from ±1/√n, n being a layer's inputs, on the generator's device."""
    layers = ((width, hidden), (hidden, hidden), (hidden, 1))

    def draw(inputs: int, *shape: int) -> torch.Tensor:
        values = torch.rand(*shape, generator=generator, device=generator.device)
        return ((2 * values - 1) / math.sqrt(inputs)).requires_grad_()

    return Discriminator(
        tuple(draw(inputs, inputs, outputs) for inputs, outputs in layers),
        tuple(draw(inputs, outputs) for inputs, outputs in layers),
        slope,
    )
