"""One run of training a map against a discriminator; messages and options call it a game.

The discriminator learns to distinguish mapped source vectors from target vectors; the map learns to make them
indistinguishable: Equations 1 and 2 of TreLM, with the details of Conneau et al. (2018), *Word translation without
parallel data*. All random numbers come from a separate generator, so that no global state is read.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.nn.functional import binary_cross_entropy_with_logits, leaky_relu

from relexify.evidence.alignment.unsupervised.options import AdversarialTraining
from relexify.progress import Advance

__all__ = ["Discriminator", "Judge", "build_discriminator", "keep_near_orthogonal", "train_map"]

AFTER_DIVERGENCE = 0.3
"""Factor on the learning rate after divergence, that is, after values became infinite or NaN."""

Judge = Callable[[torch.Tensor], float]
"""Scores a map [d × d]; higher is better."""


@dataclass(frozen=True, eq=False)
class Discriminator:
    """A perceptron with two hidden layers and Leaky-ReLU (3.1, TreLM).

    Attributes:
        weights: [d × h], [h × h] and [h × 1].
        biases: [h], [h] and [1].
        slope: Slope of the Leaky-ReLU for negative inputs.
    """

    weights: tuple[torch.Tensor, ...]
    biases: tuple[torch.Tensor, ...]
    slope: float

    @property
    def parameters(self) -> tuple[torch.Tensor, ...]:
        """All trained tensors."""
        return (*self.weights, *self.biases)

    def __call__(self, vectors: torch.Tensor) -> torch.Tensor:
        """Return the log-odds [n] that each vector of [n × d] comes from the target space."""
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            vectors = leaky_relu(torch.addmm(bias, vectors, weight), self.slope)
        return torch.addmm(self.biases[-1], vectors, self.weights[-1]).squeeze(-1)


def build_discriminator(width: int, hidden: int, slope: float, generator: torch.Generator) -> Discriminator:
    """Draw all parameters uniformly from ±1/√n, with n the inputs of the layer, on the generator's device."""
    layers = ((width, hidden), (hidden, hidden), (hidden, 1))

    def draw(inputs: int, *shape: int) -> torch.Tensor:
        values = torch.rand(*shape, generator=generator, device=generator.device)
        return ((2 * values - 1) / math.sqrt(inputs)).requires_grad_()

    return Discriminator(
        tuple(draw(inputs, inputs, outputs) for inputs, outputs in layers),
        tuple(draw(inputs, outputs) for inputs, outputs in layers),
        slope,
    )


def train_map(
    source: torch.Tensor,
    target: torch.Tensor,
    start: torch.Tensor,
    options: AdversarialTraining,
    judge: Judge,
    *,
    generator: torch.Generator,
    advance: Advance,
) -> torch.Tensor:
    """Train a map, and return the best one by the judge: the start, or the map after some epoch.

    Args:
        source: Vectors to map [n × d].
        target: Vectors that stay fixed [m × d].
        start: The initial map, [d × d], for row vectors.
        options: Options of the training.
        judge: Called at the start and after every epoch.
        generator: Source of all random numbers, on the device of the vectors.
        advance: Called after every step.
    """
    matrix = start.clone().requires_grad_()
    discriminator = build_discriminator(len(start), options.hidden, options.slope, generator)
    rate, best, best_score = options.learning_rate, start, judge(start)
    for _ in range(options.epochs):
        for _ in range(options.steps):
            _step(discriminator, matrix, source, target, rate, options, generator)
            advance(1)
        rate *= options.decay
        if not torch.isfinite(matrix).all():  # diverged: continue from the best map, with a fresh discriminator
            rate *= AFTER_DIVERGENCE
            matrix = best.clone().requires_grad_()
            discriminator = build_discriminator(len(start), options.hidden, options.slope, generator)
            continue
        score = judge(matrix.detach())
        if score > best_score:
            best, best_score = matrix.detach().clone(), score
        else:
            rate *= options.shrink
    return best


@torch.no_grad()
def keep_near_orthogonal(matrix: torch.Tensor, beta: float) -> torch.Tensor:
    """Pull a map towards orthogonality: W ← (1 + β) W − β (W Wᵀ) W (Conneau et al., 2018)."""
    return (1 + beta) * matrix - beta * (matrix @ (matrix.T @ matrix))


def _step(
    discriminator: Discriminator,
    matrix: torch.Tensor,
    source: torch.Tensor,
    target: torch.Tensor,
    rate: float,
    options: AdversarialTraining,
    generator: torch.Generator,
) -> None:
    """Take some steps of Eq. 1 and one step of Eq. 2, in place."""
    # Eq. 1: the discriminator learns which vectors are mapped source vectors.
    for _ in range(options.discriminator_steps):
        with torch.no_grad():
            mapped = _sample(source, options.batch, generator) @ matrix
            vectors = torch.cat([mapped, _sample(target, options.batch, generator)])
        log_odds = discriminator(_drop_out(vectors, options.dropout, generator))
        labels = torch.full_like(log_odds, 1 - options.smoothing)
        labels[: options.batch] = options.smoothing
        _descend(binary_cross_entropy_with_logits(log_odds, labels), discriminator.parameters, rate)
    # Eq. 2: the map learns to make source vectors look like target vectors. The second sum of the equation is left out:
    # it does not depend on W, because the target space is fixed.
    mapped = _sample(source, options.batch, generator) @ matrix
    log_odds = discriminator(_drop_out(mapped, options.dropout, generator))
    labels = torch.full_like(log_odds, 1 - options.smoothing)
    _descend(binary_cross_entropy_with_logits(log_odds, labels), (matrix,), rate)
    with torch.no_grad():
        matrix.copy_(keep_near_orthogonal(matrix, options.beta))


def _sample(vectors: torch.Tensor, batch: int, generator: torch.Generator) -> torch.Tensor:
    return vectors[torch.randint(len(vectors), (batch,), generator=generator, device=vectors.device)]


def _drop_out(vectors: torch.Tensor, rate: float, generator: torch.Generator) -> torch.Tensor:
    """Apply dropout with the given generator; torch's own dropout would read the global random state."""
    if not rate:
        return vectors
    kept = torch.rand(vectors.shape, generator=generator, device=vectors.device) >= rate
    return vectors * kept * (1 / (1 - rate))


def _descend(loss: torch.Tensor, parameters: tuple[torch.Tensor, ...], rate: float) -> None:
    """Take one step of plain SGD."""
    gradients = torch.autograd.grad(loss, parameters)
    with torch.no_grad():
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.sub_(gradient, alpha=rate)
