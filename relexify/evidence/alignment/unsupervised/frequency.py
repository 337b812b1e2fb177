"""Experimental: a first map from frequency ranks; a word and its translation have similar ranks.

The matching of words is a transport plan between the words of both spaces. It starts as a guess from frequency ranks
alone. Then two steps alternate: an orthogonal map is fitted to the plan, and the cosines under the map sharpen the
plan, with a growing weight (annealing). A word is always matched by a map that was fitted to other words, so that a
wrong guess cannot confirm itself. The search starts with the most frequent words, whose ranks are most informative, and
adds more and more words.

The constants below were chosen on the spaces of docs/results/vectors.md, and on tokens for TreLM; none is from a paper.
`AdversarialTraining.frequency_map` turns this search off.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from relexify.progress import Advance, track

__all__ = ["FrequencyMap", "map_by_frequency"]

FIRST_WORDS = (700, 1_000)
"""Number of words that a map starts with. Two maps with different starts are fitted, and trusted if they agree."""
GROWTH = 1.6
"""Factor by which the number of words grows from one stage to the next."""
COSINE_WEIGHTS = np.geomspace(0.35, 2.7, 30)
"""Weight of the cosines in each round of annealing, relative to the guess from ranks; cosines are scaled to a root mean
square of 1."""
LATER_COSINE_WEIGHTS = np.geomspace(1.5, 2.7, 10)
"""Weights of the cosines in the later stages, which start from a map instead of only ranks."""
FOLDS = 4
"""Folds of the source words; each fold is matched by a map fitted to the other folds."""
BALANCES = 3
"""Number of Sinkhorn iterations."""
RANK_OFFSET = 20
"""Added to ranks before the logarithm: the order of the very first words is less informative than log-ranks suggest."""
TAIL = 1.5
"""The guess decreases as a power -2 · TAIL of the difference of log-ranks: heavy tails, as ranks can be far off."""
NEIGHBOURS = 10
"""k of CSLS."""

NEAR_SPREADS = 3
"""Two words have similar frequency if their log-ranks differ by no more than this many spreads."""
FEWEST = 10
"""With fewer distinct words, no map is fitted."""
LEAST_STABILITY, LEAST_WORDS = 0.05, 100
"""A map is trusted only if two maps agree on this share of the words plus this number of words: for unrelated clouds of
400 to 1,000 words, two maps agreed on up to 106 words."""
TIMES_CHANCE = 3
"""The two maps must also agree on this many times as many words as in a control without any correspondence."""
BANDS = 20
"""Number of frequency bands of the control, each with its own mean vector."""


@dataclass(frozen=True, eq=False)
class FrequencyMap:
    """A map, and whether it can be trusted.

    Attributes:
        matrix: Orthogonal, float64 [d × d], for row vectors.
        stability: The share of source words that two maps with different starts send to the same target word, if it has
            a similar frequency.
        chance: The stability in a control: source vectors are permuted among the words. This removes all
            correspondence, but keeps the shape of the space and its dependence on frequency.
        stable: Whether the stability is clearly above chance.
    """

    matrix: np.ndarray
    stability: float
    chance: float
    stable: bool


def map_by_frequency(source: torch.Tensor, target: torch.Tensor, *, spread: float) -> FrequencyMap:
    """Find the orthogonal map that matches words of similar frequency and similar vectors.

    Of words with identical vectors, only the most frequent one is used: the others would agree with it by construction.

    Args:
        source: Prepared vectors [n × d], most frequent first.
        target: Prepared vectors [m × d], most frequent first.
        spread: Typical difference between the log-ranks of a word and its translation.
    """
    source_ranks, target_ranks = _distinct_rows(source), _distinct_rows(target)
    fewest, most = sorted((len(source_ranks), len(target_ranks)))
    if fewest < FEWEST:
        return FrequencyMap(np.eye(source.shape[1]), 0.0, 0.0, stable=False)
    source_logs, target_logs = (
        torch.log(ranks.to(source.dtype) + RANK_OFFSET) for ranks in (source_ranks, target_ranks)
    )
    source, target = source[source_ranks], target[target_ranks]
    apart = (source_logs[:, None] - target_logs).abs() / spread  # [n × m]
    # With few words, the first map starts with two thirds of them and the second with all, so that the starts differ.
    stages = [_stage_sizes(min(first, fewest * (2 + at) // 3), most) for at, first in enumerate(FIRST_WORDS)]
    rounds = 2 * sum(len(COSINE_WEIGHTS) + len(LATER_COSINE_WEIGHTS) * (len(sizes) - 1) for sizes in stages)
    with track("aligning by frequency", rounds) as advance:
        product, stability = _two_maps(source, target, apart, stages, advance)
        _, chance = _two_maps(_permuted(source, source_logs), target, apart, stages, advance)
    left, _, right = np.linalg.svd(product.double().cpu().numpy())
    least = max(LEAST_STABILITY + LEAST_WORDS / len(source), TIMES_CHANCE * chance)
    return FrequencyMap(left @ right, stability, chance, stable=stability >= least)


def _two_maps(
    source: torch.Tensor, target: torch.Tensor, apart: torch.Tensor, stages: list[list[int]], advance: Advance
) -> tuple[torch.Tensor, float]:
    """Fit two maps; return the sum of their x yᵀ [d × d], and the share of words that they send to the same word."""
    source, target = (torch.nn.functional.normalize(rows, dim=1) for rows in (source, target))
    guess = -TAIL * torch.log1p(apart**2)  # log-density of a Student t, up to a constant
    products = [_grow(source, target, guess, sizes, advance) for sizes in stages]
    nearest = []  # by CSLS, [n] for each map
    for product in products:
        cosines = source @ _orthogonal(product) @ target.T
        crowding = cosines.topk(min(NEIGHBOURS, len(cosines)), dim=0).values.mean(dim=0)
        nearest.append((2 * cosines - crowding).argmax(dim=1))
    first, second = nearest
    similar = apart.gather(1, first[:, None]).squeeze(1) <= NEAR_SPREADS
    return torch.stack(products).sum(dim=0), float(((first == second) & similar).double().mean())


def _permuted(rows: torch.Tensor, log_ranks: torch.Tensor) -> torch.Tensor:
    """Permute the vectors among the words, but keep the mean vector of each frequency band."""
    share = (log_ranks - log_ranks[0]) / (log_ranks[-1] - log_ranks[0])
    bands = (share * BANDS).long().clamp(max=BANDS - 1)
    counts = torch.zeros(BANDS, dtype=rows.dtype, device=rows.device).index_add_(0, bands, torch.ones_like(share))
    sums = torch.zeros(BANDS, rows.shape[1], dtype=rows.dtype, device=rows.device).index_add_(0, bands, rows)
    means = (sums / counts.clamp(min=1)[:, None])[bands]
    order = torch.from_numpy(np.random.default_rng(0).permutation(len(rows))).to(rows.device)
    return means + (rows - means)[order]


def _stage_sizes(first: int, most: int) -> list[int]:
    """Return the number of words in each stage, up to all of them."""
    sizes = [first]
    while sizes[-1] < most:
        sizes.append(min(int(GROWTH * sizes[-1]) + 1, most))
    return sizes


def _grow(
    source: torch.Tensor, target: torch.Tensor, guess: torch.Tensor, sizes: list[int], advance: Advance
) -> torch.Tensor:
    """Anneal stage by stage over more and more words; return the sum of x yᵀ [d × d] over the last plan."""
    size = sizes[0]
    product = _anneal(source[:size], target[:size], guess[:size, :size], COSINE_WEIGHTS, None, advance)
    for size in sizes[1:]:
        product = _anneal(source[:size], target[:size], guess[:size, :size], LATER_COSINE_WEIGHTS, product, advance)
    return product


def _distinct_rows(rows: torch.Tensor) -> torch.Tensor:
    """Return the index of the first of all identical rows, ascending."""
    _, first = np.unique(rows.cpu().numpy(), axis=0, return_index=True)
    return torch.from_numpy(np.sort(first)).to(rows.device)


def _anneal(
    source: torch.Tensor,
    target: torch.Tensor,
    guess: torch.Tensor,
    weights: np.ndarray,
    start: torch.Tensor | None,
    advance: Advance,
) -> torch.Tensor:
    """Alternate between the transport plan and the map, with a growing weight of the cosines.

    Args:
        source: Unit vectors [n × d].
        target: Unit vectors [m × d].
        guess: Log-plausibility of every pair from frequency ranks alone, [n × m].
        weights: Weight of the cosines in every round.
        start: The sum of x yᵀ [d × d] of an earlier stage, if any.
        advance: Called after every round.

    Returns:
        The sum of x yᵀ [d × d] over the last plan; its closest orthogonal matrix is the map.
    """
    folds = [torch.arange(part, len(source), FOLDS, device=source.device) for part in range(FOLDS)]
    logits = guess
    if start is not None:
        logits = _add_cosines(guess, source @ _orthogonal(start) @ target.T, weights[0])
    for weight in weights:
        plan = _sinkhorn(logits)
        products = [source[fold].T @ (plan[fold] @ target) for fold in folds]
        cosines = torch.empty_like(guess)
        for fold, own in zip(folds, products, strict=True):
            # A word must not be matched by a map that was fitted to it, or the first guess would confirm itself.
            cosines[fold] = source[fold] @ _orthogonal(sum(products) - own) @ target.T
        logits = _add_cosines(guess, cosines, weight)
        advance(1)
    return source.T @ (_sinkhorn(logits) @ target)


def _add_cosines(guess: torch.Tensor, cosines: torch.Tensor, weight: float) -> torch.Tensor:
    return guess + cosines * (weight / cosines.square().mean().sqrt())


def _sinkhorn(logits: torch.Tensor) -> torch.Tensor:
    """Return the transport plan [n × m]: rows sum to 1, columns to n/m, after a few Sinkhorn iterations."""
    plan = torch.exp(logits - logits.amax(1, keepdim=True))
    share = len(plan) / plan.shape[1]
    columns = plan.new_ones(plan.shape[1])
    for _ in range(BALANCES):
        rows = 1 / (plan @ columns).clamp(min=1e-30)  # a row whose mass underflowed must not divide by zero
        columns = share / (rows @ plan).clamp(min=1e-30)
    rows = 1 / (plan @ columns).clamp(min=1e-30)
    return plan.mul_(columns).mul_(rows[:, None])


def _orthogonal(product: torch.Tensor) -> torch.Tensor:
    """Return the orthogonal matrix closest to a sum of x yᵀ (Procrustes): P (PᵀP)^-½, far faster than with an SVD."""
    wide = product.double()
    values, vectors = torch.linalg.eigh(wide.T @ wide)
    # Directions without evidence have eigenvalues of about 0; the floor keeps their inverse finite.
    scale = values.clamp(min=float(values[-1]) * 1e-12).rsqrt()
    closest: torch.Tensor = (wide @ (vectors * scale) @ vectors.T).to(product.dtype)
    return closest
