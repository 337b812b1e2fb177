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
NEIGHBOURS = 10
"""Over which the crowding of a target word is measured."""


@dataclass(frozen=True, eq=False)
class FrequencyMap:
    """A map, and whether to believe it.

    Attributes:
        matrix: Orthogonal, float64 [d × d], for row vectors.
        stability: The share of source words that two further maps send to the same target word, one of them fitted to
            every other source word and one to the rest. Where there is nothing to find it is zero, but for chance.
    """

    matrix: np.ndarray
    stability: float


def map_by_frequency(
    source: torch.Tensor, target: torch.Tensor, *, spread: float, progress: Progress = silent
) -> FrequencyMap:
    """Find the orthogonal map under which words of like frequency and like vectors meet.

    Args:
        source: Prepared vectors [n × d], most frequent first.
        target: Prepared vectors [m × d], most frequent first.
        spread: How far the logarithms of the ranks of two words that belong together differ, about.
        progress: Told of every round.
    """
    source, target = (torch.nn.functional.normalize(rows, dim=1) for rows in (source, target))
    ranks, others = (torch.log(torch.arange(len(rows)).to(rows) + RANK_OFFSET) for rows in (source, target))
    guess = -torch.log1p(((ranks[:, None] - others) / spread) ** 2)
    with progress("aligning by frequency", 3 * ROUNDS) as advance:
        halves = [_annealed(source[part::2], target, guess[part::2], advance) for part in (0, 1)]
        places = [_nearest(source @ matrix, target) for matrix in halves]
        matrix = _annealed(source, target, guess, advance).double().cpu().numpy()
    return FrequencyMap(matrix, stability=float((places[0] == places[1]).double().mean()))


def _annealed(source: torch.Tensor, target: torch.Tensor, guess: torch.Tensor, advance: Advance) -> torch.Tensor:
    """The map [d × d] of the last plan, from the logarithms of a first one [n × m]."""
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
    return _orthogonal(source.T @ (_balanced(belief) @ target))


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
