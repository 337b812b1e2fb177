"""The game: a map tries to make mapped source vectors look like target vectors, a discriminator tells them apart.

Equations 1 and 2 of TreLM, with the details of Conneau et al. (2018), *Word translation without parallel data*.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.nn.functional import binary_cross_entropy_with_logits

from relexify.evidence.alignment.unsupervised.discriminator import Discriminator, build_discriminator
from relexify.evidence.alignment.unsupervised.options import AdversarialTraining
from relexify.progress import Advance

__all__ = ["Judge", "orthogonalised", "play"]

AFTER_DIVERGENCE = 0.3
"""What the learning rate is multiplied by where values are no longer finite."""

Judge = Callable[[torch.Tensor], float]
"""How good a map [d × d] is; more is better."""


def play(
    source: torch.Tensor,
    target: torch.Tensor,
    start: torch.Tensor,
    options: AdversarialTraining,
    judge: Judge,
    *,
    generator: torch.Generator,
    advance: Advance,
) -> torch.Tensor:
    """Train a map, and give back the best one that the judge saw after an epoch.

    Args:
        source: Vectors to map [n × d].
        target: Vectors that stay [m × d].
        start: Where the map begins, [d × d], for row vectors.
        options: How to train.
        judge: Asked at the start and after every epoch.
        generator: Where everything random comes from; it lives on the device of the vectors.
        advance: Told of every step.
    """
    matrix = start.clone().requires_grad_()
    discriminator = build_discriminator(len(start), options.hidden, options.slope, generator)
    rate, best, mark = options.learning_rate, start, judge(start)
    for _ in range(options.epochs):
        for _ in range(options.steps):
            for _ in range(options.discriminator_steps):
                _teach(discriminator, matrix, source, target, rate, options, generator)
            _fool(discriminator, matrix, source, rate, options, generator)
            advance(1)
        rate *= options.decay
        if not torch.isfinite(matrix).all():  # too fast: again from the best map, with a discriminator that is whole
            rate *= AFTER_DIVERGENCE
            matrix = best.clone().requires_grad_()
            discriminator = build_discriminator(len(start), options.hidden, options.slope, generator)
            continue
        reached = judge(matrix.detach())
        if reached > mark:
            best, mark = matrix.detach().clone(), reached
        else:
            rate *= options.shrink
    return best


@torch.no_grad()
def orthogonalised(matrix: torch.Tensor, beta: float) -> torch.Tensor:
    """W ← (1 + β) W − β (W Wᵀ) W, which keeps a map close to the orthogonal ones (Conneau et al., 2018)."""
    return (1 + beta) * matrix - beta * (matrix @ (matrix.T @ matrix))


def _teach(
    discriminator: Discriminator,
    matrix: torch.Tensor,
    source: torch.Tensor,
    target: torch.Tensor,
    rate: float,
    options: AdversarialTraining,
    generator: torch.Generator,
) -> None:
    """One step of Eq. 1: the discriminator learns which vectors are mapped ones."""
    with torch.no_grad():
        mapped = _sample(source, options.batch, generator) @ matrix
        shown = torch.cat([mapped, _sample(target, options.batch, generator)])
    log_odds = discriminator(_blanked(shown, options.dropout, generator))
    labels = torch.full_like(log_odds, 1 - options.smoothing)
    labels[: options.batch] = options.smoothing
    _descend(binary_cross_entropy_with_logits(log_odds, labels), discriminator.parameters, rate)


def _fool(
    discriminator: Discriminator,
    matrix: torch.Tensor,
    source: torch.Tensor,
    rate: float,
    options: AdversarialTraining,
    generator: torch.Generator,
) -> None:
    """One step of Eq. 2: the map learns to be taken for the target space.

    The second sum of the equation does not depend on W where the target space is fixed, and is left out.
    """
    mapped = _sample(source, options.batch, generator) @ matrix
    log_odds = discriminator(_blanked(mapped, options.dropout, generator))
    labels = torch.full_like(log_odds, 1 - options.smoothing)
    _descend(binary_cross_entropy_with_logits(log_odds, labels), (matrix,), rate)
    with torch.no_grad():
        matrix.copy_(orthogonalised(matrix, options.beta))


def _sample(vectors: torch.Tensor, batch: int, generator: torch.Generator) -> torch.Tensor:
    return vectors[torch.randint(len(vectors), (batch,), generator=generator, device=vectors.device)]


def _blanked(vectors: torch.Tensor, share: float, generator: torch.Generator) -> torch.Tensor:
    """Dropout by our own generator, so that no global state is read."""
    if not share:
        return vectors
    kept = torch.rand(vectors.shape, generator=generator, device=vectors.device) >= share
    return vectors * kept * (1 / (1 - share))


def _descend(loss: torch.Tensor, parameters: tuple[torch.Tensor, ...], rate: float) -> None:
    """Plain SGD."""
    gradients = torch.autograd.grad(loss, parameters)
    with torch.no_grad():
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.sub_(gradient, alpha=rate)
