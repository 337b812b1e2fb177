"""The game: a map tries to make mapped source vectors look like target vectors, a discriminator tells them apart.

Equations 1 and 2 of TreLM, with the details of Conneau et al. (2018), *Word translation without parallel data*.
Several games are played side by side, each with a map, a discriminator and a learning rate of its own.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from relexify.adversarial.discriminator import Discriminator, build_discriminator
from relexify.adversarial.options import AdversarialTraining
from relexify.progress import Advance

__all__ = ["Judge", "orthogonalised", "play"]

Judge = Callable[[torch.Tensor], torch.Tensor]
"""How good each of the maps [games × d × d] is, [games]; more is better."""


def play(
    source: torch.Tensor,
    target: torch.Tensor,
    starts: torch.Tensor,
    options: AdversarialTraining,
    judge: Judge,
    *,
    generator: torch.Generator,
    advance: Advance,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Train all maps, and give back the best of each game as the judge saw it after an epoch.

    Args:
        source: Vectors to map [n × d], most frequent first.
        target: Vectors that stay [m × d], most frequent first.
        starts: Where the maps begin, [games × d × d], for row vectors.
        options: How to train.
        judge: Called after every epoch, and for the starts.
        generator: Where everything random comes from; it lives on the device of the vectors.
        advance: Told of every step.

    Returns:
        The maps [games × d × d], and what the judge said of them [games].
    """
    games, width = starts.shape[:2]
    maps = starts.clone().requires_grad_()
    discriminator = build_discriminator(games, width, options.hidden, options.slope, generator)
    rates = torch.full((games, 1, 1), options.learning_rate, device=maps.device)
    best, marks = starts.clone(), judge(starts)
    for _ in range(options.epochs):
        for _ in range(options.steps):
            for _ in range(options.discriminator_steps):
                _teach(discriminator, maps, source, target, rates, options, generator)
            _fool(discriminator, maps, source, rates, options, generator)
            advance(1)
        reached = judge(maps.detach())
        better = reached > marks
        best = torch.where(better[:, None, None], maps.detach(), best)
        marks = torch.where(better, reached, marks)
        rates = rates * options.decay * torch.where(better, 1.0, options.shrink)[:, None, None]
    return best, marks


@torch.no_grad()
def orthogonalised(maps: torch.Tensor, beta: float) -> torch.Tensor:
    """W ← (1 + β) W − β (W Wᵀ) W, which keeps a map close to the orthogonal ones (Conneau et al., 2018)."""
    return (1 + beta) * maps - beta * (maps @ maps.mT @ maps)


def _teach(
    discriminator: Discriminator,
    maps: torch.Tensor,
    source: torch.Tensor,
    target: torch.Tensor,
    rates: torch.Tensor,
    options: AdversarialTraining,
    generator: torch.Generator,
) -> None:
    """One step of Eq. 1: the discriminator learns which vectors are mapped ones."""
    games = len(maps)
    with torch.no_grad():
        mapped = _sample(source, games, options.batch, generator) @ maps
        shown = torch.cat([mapped, _sample(target, games, options.batch, generator)], dim=1)
    log_odds = discriminator(_blanked(shown, options.dropout, generator))
    labels = torch.full_like(log_odds, 1 - options.smoothing)
    labels[:, : options.batch] = options.smoothing
    _descend(_loss(log_odds, labels), discriminator.parameters, rates)


def _fool(
    discriminator: Discriminator,
    maps: torch.Tensor,
    source: torch.Tensor,
    rates: torch.Tensor,
    options: AdversarialTraining,
    generator: torch.Generator,
) -> None:
    """One step of Eq. 2: the maps learn to be taken for the target space.

    The second sum of the equation does not depend on W where the target space is fixed, and is left out.
    """
    mapped = _sample(source, len(maps), options.batch, generator) @ maps
    log_odds = discriminator(_blanked(mapped, options.dropout, generator))
    _descend(_loss(log_odds, torch.full_like(log_odds, 1 - options.smoothing)), (maps,), rates)
    with torch.no_grad():
        maps.copy_(orthogonalised(maps, options.beta))


def _sample(vectors: torch.Tensor, games: int, batch: int, generator: torch.Generator) -> torch.Tensor:
    rows = torch.randint(len(vectors), (games, batch), generator=generator, device=vectors.device)
    return vectors[rows]


def _blanked(vectors: torch.Tensor, share: float, generator: torch.Generator) -> torch.Tensor:
    """Dropout by our own generator, so that no global state is read."""
    kept = torch.rand(vectors.shape, generator=generator, device=vectors.device) >= share
    return vectors * kept / (1 - share)


def _loss(log_odds: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Cross-entropy, the mean over vectors and the sum over games, which share nothing."""
    loss = torch.nn.functional.binary_cross_entropy_with_logits
    return loss(log_odds, labels, reduction="none").mean(dim=1).sum()


def _descend(loss: torch.Tensor, parameters: tuple[torch.Tensor, ...], rates: torch.Tensor) -> None:
    """Plain SGD, with a learning rate for each game."""
    gradients = torch.autograd.grad(loss, parameters)
    with torch.no_grad():
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.sub_(rates * gradient)
