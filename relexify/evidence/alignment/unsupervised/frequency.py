"""A first map from how frequent words are: what is frequent in one space is likely frequent in the other.

Who belongs to whom is a transport plan between the words of both spaces. It begins as a guess by frequency alone; a map
is fitted to it, cosines under the map make the plan surer, and so on, while cosines count more and more. That a word is
placed by a map that other words were fitted to, never by its own, keeps the guess from proving itself right. It begins
with few words, the most frequent ones, of which frequency tells most; more and more join them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from relexify.progress import Advance, track

__all__ = ["FrequencyMap", "map_by_frequency"]

BEGINNINGS = (700, 1_000)
"""Words that a map begins with; one map for each, since that two of them meet is what a map is believed from."""
GROWTH = 1.6
"""How many times as many words come next."""
SURENESS = np.geomspace(0.35, 2.7, 30)
"""What a cosine counts against the guess by frequency, in standard deviations of all cosines, round by round."""
LATER_SURENESS = np.geomspace(1.5, 2.7, 10)
"""The same where more words join."""
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
FEWEST = 10
"""With fewer words there is nothing to begin with."""
LEAST_STABILITY, LEAST_WORDS = 0.05, 100
"""What a map is believed from: a share of the words and a number of them together. Clouds of 400 to 1,000 words that
had nothing to do with each other reached up to 106 words,"""
TIMES_CHANCE = 3
"""and so many times what is reached where there is nothing to find."""
BANDS = 20
"""Parts of the words by frequency, in each of which they have a mean of their own."""


@dataclass(frozen=True, eq=False)
class FrequencyMap:
    """A map, and whether to believe it.

    Attributes:
        matrix: Orthogonal, float64 [d × d], for row vectors.
        stability: The share of source words that two maps which began with different words send to the same target
            word, and which that word is like in frequency.
        chance: The same of a source whose words have changed places, so that there is nothing to find, while its shape
            and how its vectors change with frequency have stayed.
        stable: Whether the two are told apart.
    """

    matrix: np.ndarray
    stability: float
    chance: float
    stable: bool


def map_by_frequency(source: torch.Tensor, target: torch.Tensor, *, spread: float) -> FrequencyMap:
    """Find the orthogonal map under which words of like frequency and like vectors meet.

    Of words with the very same vector only the most frequent counts: they would agree with themselves.

    Args:
        source: Prepared vectors [n × d], most frequent first.
        target: Prepared vectors [m × d], most frequent first.
        spread: How far the logarithms of the ranks of two words that belong together differ, about.
    """
    first_places = [_distinct(rows) for rows in (source, target)]
    fewest, most = (choose(map(len, first_places)) for choose in (min, max))
    if fewest < FEWEST:
        return FrequencyMap(np.eye(source.shape[1]), 0.0, 0.0, stable=False)
    ranks, others = (torch.log(places.to(source.dtype) + RANK_OFFSET) for places in first_places)
    source, target = (rows[places] for rows, places in zip((source, target), first_places, strict=True))
    apart = (ranks[:, None] - others).abs() / spread
    growths = [_growth(min(first, fewest * (2 + at) // 3), most) for at, first in enumerate(BEGINNINGS)]
    rounds = 2 * sum(len(SURENESS) + len(LATER_SURENESS) * (len(sizes) - 1) for sizes in growths)
    with track("aligning by frequency", rounds) as advance:
        product, stability = _grown_twice(source, target, apart, growths, advance)
        _, chance = _grown_twice(_places_changed(source, ranks), target, apart, growths, advance)
    left, _, right = np.linalg.svd(product.double().cpu().numpy())
    least = max(LEAST_STABILITY + LEAST_WORDS / len(source), TIMES_CHANCE * chance)
    return FrequencyMap(left @ right, stability, chance, stable=stability >= least)


def _grown_twice(
    source: torch.Tensor, target: torch.Tensor, apart: torch.Tensor, growths: list[list[int]], advance: Advance
) -> tuple[torch.Tensor, float]:
    """The sum of x yᵀ [d × d] of two maps, and the share of words that they send to the same one of like frequency."""
    source, target = (torch.nn.functional.normalize(rows, dim=1) for rows in (source, target))
    guess = -TAIL * torch.log1p(apart**2)
    products = [_grown(source, target, guess, sizes, advance) for sizes in growths]
    first, second = (_nearest(source @ _orthogonal(product), target) for product in products)
    like = apart.gather(1, first[:, None]).squeeze(1) <= NEAR_SPREADS
    return torch.stack(products).sum(dim=0), float(((first == second) & like).double().mean())


def _places_changed(rows: torch.Tensor, ranks: torch.Tensor) -> torch.Tensor:
    """Each word with the mean of its own place, and what another one has beside the mean of its place."""
    share = (ranks - ranks[0]) / (ranks[-1] - ranks[0])
    bands = (share * BANDS).long().clamp(max=BANDS - 1)
    counts = torch.zeros(BANDS, dtype=rows.dtype, device=rows.device).index_add_(0, bands, torch.ones_like(share))
    sums = torch.zeros(BANDS, rows.shape[1], dtype=rows.dtype, device=rows.device).index_add_(0, bands, rows)
    means = (sums / counts.clamp(min=1)[:, None])[bands]
    order = torch.from_numpy(np.random.default_rng(0).permutation(len(rows))).to(rows.device)
    return means + (rows - means)[order]


def _growth(first: int, most: int) -> list[int]:
    """Numbers of words, from the first on until all have joined."""
    sizes = [first]
    while sizes[-1] < most:
        sizes.append(min(int(GROWTH * sizes[-1]) + 1, most))
    return sizes


def _grown(
    source: torch.Tensor, target: torch.Tensor, guess: torch.Tensor, sizes: list[int], advance: Advance
) -> torch.Tensor:
    """The sum of x yᵀ [d × d] of the last plan, of so many words of both sides at a time."""
    parts = [(source[:size], target[:size], guess[:size, :size]) for size in sizes]
    product = _annealed(*parts[0], SURENESS, None, advance)
    for part in parts[1:]:
        product = _annealed(*part, LATER_SURENESS, product, advance)
    return product


def _distinct(rows: torch.Tensor) -> torch.Tensor:
    """The places of rows that are like none before them, rising."""
    _, places = np.unique(rows.cpu().numpy(), axis=0, return_index=True)
    return torch.from_numpy(np.sort(places)).to(rows.device)


def _annealed(
    source: torch.Tensor,
    target: torch.Tensor,
    guess: torch.Tensor,
    surenesses: np.ndarray,
    start: torch.Tensor | None,
    advance: Advance,
) -> torch.Tensor:
    """The sum of x yᵀ [d × d] of the last plan, from a guess [n × m], in logarithms, and such a sum of fewer words."""
    folds = [torch.arange(part, len(source), FOLDS, device=source.device) for part in range(FOLDS)]
    belief = guess
    if start is not None:
        belief = _belief(guess, source @ _orthogonal(start) @ target.T, surenesses[0])
    for sureness in surenesses:
        plan = _balanced(belief)
        products = [source[fold].T @ (plan[fold] @ target) for fold in folds]
        cosines = torch.empty_like(guess)
        for fold, own in zip(folds, products, strict=True):
            cosines[fold] = source[fold] @ _orthogonal(sum(products) - own) @ target.T
        belief = _belief(guess, cosines, sureness)
        advance(1)
    return source.T @ (_balanced(belief) @ target)


def _belief(guess: torch.Tensor, cosines: torch.Tensor, sureness: float) -> torch.Tensor:
    return guess + cosines * (sureness / cosines.square().mean().sqrt())


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
