"""A first map from how frequent words are: what is frequent in one space is likely frequent in the other.

Who belongs to whom is a transport plan between the words of both spaces. It begins as a guess by frequency alone; a map
is fitted to it, cosines under the map make the plan surer, and so on, while cosines count more and more. That a word is
placed by a map that other words were fitted to, never by its own, keeps the guess from proving itself right.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from relexify.progress import Advance, Progress, silent

__all__ = ["FrequencyMap", "map_by_frequency"]

ROUNDS = 30
FIRST_SURENESS, LAST_SURENESS = 0.35, 2.7
"""What a cosine counts against the guess by frequency, in standard deviations of all cosines."""
FOLDS = 4
"""Parts of the words; each is placed by a map of the others."""
BALANCES = 3
"""Times that the rows and columns of a plan are brought to their sums."""
RANK_OFFSET = 20
"""The order of the first words tells less than the logarithm of their ranks would say."""
TAIL = 1.5
"""How fast the guess falls where frequencies differ by many spreads: as the power -2 · TAIL."""
NEIGHBOURS = 10
"""Over which the crowding of a target word is measured."""

NEAR_SPREADS = 3
"""Words are alike in frequency where the logarithms of their ranks differ by no more than so many spreads."""
LEAST_STABILITY, LEAST_WORDS = 0.005, 10
"""What a map is believed from: a share of the words, and a number of them. Random vectors 384 wide reached 0.000; a
language's tokens in counted vectors and in an encoder's embedding 0.31."""
TIMES_CHANCE, TIMES_EXPECTED = 5, 2
"""And over what two maps would do that know nothing of each other, or nothing of frequency."""


@dataclass(frozen=True, eq=False)
class FrequencyMap:
    """A map, and whether to believe it.

    Attributes:
        matrix: Orthogonal, float64 [d × d], for row vectors.
        stability: The share of source words that two further maps send to the same target word, one of them fitted to
            every other source word and one to the rest, and which that word is like in frequency.
        stable: Whether that is more than chance. Where there is nothing to find, the two maps know nothing of each
            other, or they agree about the shape of the clouds, and frequencies do not. Spaces that have no more in
            common than how vectors change with frequency, in about as many directions as there are, deceive it.
    """

    matrix: np.ndarray
    stability: float
    stable: bool


def map_by_frequency(
    source: torch.Tensor, target: torch.Tensor, *, spread: float, progress: Progress = silent
) -> FrequencyMap:
    """Find the orthogonal map under which words of like frequency and like vectors meet.

    Of words with the very same vector only the most frequent counts: in both halves, they would agree with themselves.

    Args:
        source: Prepared vectors [n × d], most frequent first.
        target: Prepared vectors [m × d], most frequent first.
        spread: How far the logarithms of the ranks of two words that belong together differ, about.
        progress: Told of every round.
    """
    first_places = [_distinct(rows) for rows in (source, target)]
    if min(map(len, first_places)) < LEAST_WORDS:
        return FrequencyMap(np.eye(source.shape[1]), 0.0, stable=False)
    ranks, others = (torch.log(places.to(source.dtype) + RANK_OFFSET) for places in first_places)
    source, target = (
        torch.nn.functional.normalize(rows[places], dim=1)
        for rows, places in zip((source, target), first_places, strict=True)
    )
    guess = -TAIL * torch.log1p(((ranks[:, None] - others) / spread) ** 2)
    with progress("aligning by frequency", 3 * ROUNDS) as advance:
        halves = [_annealed(source[part::2], target, guess[part::2], advance) for part in (0, 1)]
        product = _annealed(source, target, guess, advance)
    first, second = (_nearest(source @ _orthogonal(half), target) for half in halves)
    near = (ranks[:, None] - others).abs() <= NEAR_SPREADS * spread
    same, like = first == second, near.gather(1, first[:, None]).squeeze(1)
    stability, expected = float((same & like).double().mean()), float(same.double().mean() * near.double().mean())
    least = max(LEAST_STABILITY, LEAST_WORDS / len(source), TIMES_CHANCE * _coincidence(first, second, len(target)))
    left, _, right = np.linalg.svd(product.double().cpu().numpy())
    return FrequencyMap(left @ right, stability, stable=stability >= max(least, TIMES_EXPECTED * expected))


def _distinct(rows: torch.Tensor) -> torch.Tensor:
    """The places of rows that are like none before them, rising."""
    _, places = np.unique(rows.cpu().numpy(), axis=0, return_index=True)
    return torch.from_numpy(np.sort(places)).to(rows.device)


def _annealed(source: torch.Tensor, target: torch.Tensor, guess: torch.Tensor, advance: Advance) -> torch.Tensor:
    """The sum of x yᵀ [d × d] of the last plan, from the logarithms of a first one [n × m]."""
    folds = [torch.arange(part, len(source), FOLDS, device=source.device) for part in range(FOLDS)]
    belief = guess
    for sureness in np.geomspace(FIRST_SURENESS, LAST_SURENESS, ROUNDS):
        plan = _balanced(belief)
        products = [source[fold].T @ (plan[fold] @ target) for fold in folds]
        cosines = torch.empty_like(guess)
        for fold, own in zip(folds, products, strict=True):
            cosines[fold] = source[fold] @ _orthogonal(sum(products) - own) @ target.T
        belief = guess + cosines * (sureness / cosines.square().mean().sqrt())
        advance(1)
    return source.T @ (_balanced(belief) @ target)


def _balanced(belief: torch.Tensor) -> torch.Tensor:
    """Sinkhorn's plan [n × m]: every source word is given one whole, every target word n/m of a whole."""
    plan = torch.exp(belief - belief.amax(1, keepdim=True))
    share = len(plan) / plan.shape[1]
    columns = plan.new_ones(plan.shape[1])
    for _ in range(BALANCES):
        rows = 1 / (plan @ columns).clamp(min=1e-30)
        columns = share / (rows @ plan).clamp(min=1e-30)
    rows = 1 / (plan @ columns).clamp(min=1e-30)
    return plan.mul_(columns).mul_(rows[:, None])


def _orthogonal(product: torch.Tensor) -> torch.Tensor:
    """The orthogonal matrix that is closest to a sum of x yᵀ (Procrustes), by eigenvectors: SVD takes far longer."""
    wide = product.double()
    values, vectors = torch.linalg.eigh(wide.T @ wide)
    scale = values.clamp(min=float(values[-1]) * 1e-12).rsqrt()
    closest: torch.Tensor = (wide @ (vectors * scale) @ vectors.T).to(product.dtype)
    return closest


def _nearest(mapped: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """The place of the nearest target word by CSLS [n]."""
    cosines = mapped @ target.T
    crowding = cosines.topk(min(NEIGHBOURS, len(cosines)), dim=0).values.mean(dim=0)
    return (2 * cosines - crowding).argmax(dim=1)


def _coincidence(first: torch.Tensor, second: torch.Tensor, places: int) -> float:
    """How often two maps that know nothing of each other choose the same: some target words are everybody's nearest."""
    shares = [torch.bincount(chosen, minlength=places).double() / len(chosen) for chosen in (first, second)]
    return float(shares[0] @ shares[1])
