"""The search for a map: by frequency, by principal axes, by games; compared with what chance reaches."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

import numpy as np
import torch

from relexify.errors import EvidenceError
from relexify.evidence.alignment.unsupervised.agreement import Agreement, mutual_neighbours
from relexify.evidence.alignment.unsupervised.frequency import map_by_frequency
from relexify.evidence.alignment.unsupervised.game import play
from relexify.evidence.alignment.unsupervised.options import (
    AdversarialTraining,
    resolve_options,
    validate_adversarial_training,
)
from relexify.evidence.alignment.unsupervised.refinement import refine
from relexify.evidence.alignment.unsupervised.spaces import (
    prepare_space,
    principal_axes,
    random_rotation,
    validate_spaces,
)
from relexify.progress import Advance, track

__all__ = ["FoundMap", "find_map"]

CHANCES = 3
"""Random rotations that a map is compared with."""
CLEAR_GAIN = 2.0
"""Where principal axes alone agree so well, no game is played."""
LEAST_GAIN = 1.25
"""How much more than chance words must agree. Unrelated clouds reached 1.15, turned and noisy ones 1.8 and more."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class FoundMap:
    """A map from one space into another that no pair of words had a part in.

    Attributes:
        matrix: Orthogonal after refinement, float64 [d × d]: a prepared row v becomes v @ matrix.
        agreement: How well the spaces agree under it.
        chance: The best agreement that random rotations of the same data reached with the same refinement; None where
            frequency was enough, which has a chance of its own.
        games: How many games were played until it was found; none where principal axes or frequency were enough.
        stability: Of a map by frequency that is told apart from chance, see `FrequencyMap`; zero for others.
    """

    matrix: np.ndarray
    agreement: Agreement
    chance: Agreement | None
    games: int
    stability: float = 0.0

    @property
    def gain(self) -> float:
        """How many times as strong the agreement is as that of chance; about 1 where nothing was found."""
        if self.chance is None:
            return 0.0
        return self.agreement.strength / max(self.chance.strength, 1e-9)

    @property
    def converged(self) -> bool:
        """Whether it is told apart from chance."""
        return self.gain >= LEAST_GAIN or self.stability > 0


def find_map(
    source: np.ndarray,
    target: np.ndarray,
    options: AdversarialTraining | None = None,
    *,
    insist: bool = True,
    seed: int = 0,
    device: str = "cpu",
) -> FoundMap:
    """Find the orthogonal map under which two clouds of vectors look alike (Eqs. 1 and 2, TreLM).

    How frequent words are is tried first, then the principal axes of both spaces. Where neither is enough, games are
    played, from the axes and from random rotations, until one is told apart from chance, at most as many as the
    options say.

    Args:
        source: Vectors to map [n × d], most frequent first.
        target: Vectors that stay where they are [m × d], most frequent first.
        options: How to train.
        insist: Refuse a map that cannot be told from chance.
        seed: Of all that is random; on one device the same seed gives the same map.
        device: Where to train.

    Raises:
        InputError: Widths differ, a value is not finite, or an option is out of range.
        EvidenceError: There are too few words, or, with `insist`, no game found a map.
    """
    validate_adversarial_training(options or AdversarialTraining())
    validate_spaces(source, target)
    options = resolve_options(options, source.shape[1])
    places = [np.flatnonzero(np.any(rows != 0, axis=1)) for rows in (source, target)]  # of those with a direction
    left, right = (prepare_space(rows[at], options, device) for rows, at in zip((source, target), places, strict=True))
    best = _from_frequency(left, right, options) if options.by_frequency else None
    best = best or _from_shapes(left, right, options, seed)
    if best is None or (insist and not best.converged):
        raise EvidenceError(_refusal(best, options))
    near = best.agreement
    return replace(best, agreement=replace(near, source=places[0][near.source], target=places[1][near.target]))


def _from_frequency(left: torch.Tensor, right: torch.Tensor, options: AdversarialTraining) -> FoundMap | None:
    """The map that begins with the words' frequencies, as it is: refined on its own pairs it is no better."""
    first, second = left[: options.by_frequency], right[: options.by_frequency]
    guessed = map_by_frequency(first, second, spread=options.frequency_spread)
    logger.info(
        "frequency: maps that began with different words send %.1f %% of all to the same neighbour, and %.1f %% where "
        "there is nothing to find",
        *(100 * guessed.stability, 100 * guessed.chance),
    )
    if not guessed.stable:
        return None
    agreement = _judged(left, right, torch.from_numpy(guessed.matrix).to(left), options)
    return FoundMap(guessed.matrix, agreement, None, 0, guessed.stability)


def _from_shapes(left: torch.Tensor, right: torch.Tensor, options: AdversarialTraining, seed: int) -> FoundMap | None:
    """The best map of the principal axes and of the games."""
    random = np.random.default_rng(seed)
    with track("comparing with random rotations", CHANCES + int(options.principal)) as advance:
        chance = _chance(left, right, options, random, advance)
        best = _from_axes(left, right, options, chance, advance) if options.principal else None
    if best is not None and best.gain >= CLEAR_GAIN:
        return best
    start = None if best is None else best.matrix
    return _from_games(left, right, options, best, chance, random, start=start)


def _from_axes(
    left: torch.Tensor, right: torch.Tensor, options: AdversarialTraining, chance: Agreement, advance: Advance
) -> FoundMap:
    """The best map between the principal axes of both spaces, taken over fewer and more frequent words, refined."""
    judged = options.judged or len(left)
    axes = (
        torch.from_numpy(principal_axes(left[:words]) @ principal_axes(right[:words]).T)
        for words in (judged // 2, judged, 2 * judged, options.frequent)
    )
    first = max(axes, key=lambda matrix: _judged(left, right, matrix.to(left), options).closeness)
    best = FoundMap(*_refined(left, right, first.numpy(), options), chance, 0)
    advance(1)
    logger.info("principal axes: %s", _told(best))
    return best


def _from_games(
    left: torch.Tensor,
    right: torch.Tensor,
    options: AdversarialTraining,
    best: FoundMap | None,
    chance: Agreement,
    random: np.random.Generator,
    *,
    start: np.ndarray | None,
) -> FoundMap | None:
    """The best map of all games and of what was found before them; the first game begins at `start`."""
    length = options.epochs * options.steps
    with track("aligning without a dictionary", options.restarts * length) as advance:
        for game in range(options.restarts):
            drawn = random_rotation(left.shape[1], random)
            played = play(
                left[: options.frequent],
                right[: options.frequent],
                torch.from_numpy(drawn if game or start is None else start).to(left),
                options,
                lambda matrix: _judged(left, right, matrix, options).closeness,
                generator=torch.Generator(left.device).manual_seed(int(random.integers(2**62))),
                advance=advance,
            )
            found = FoundMap(*_refined(left, right, played.cpu().double().numpy(), options), chance, game + 1)
            logger.info("game %d: %s", game + 1, _told(found))
            best = found if best is None or found.gain > best.gain else best
            if best.converged:
                advance((options.restarts - game - 1) * length)
                break
    return best


def _judged(left: torch.Tensor, right: torch.Tensor, matrix: torch.Tensor, options: AdversarialTraining) -> Agreement:
    return mutual_neighbours(left[: options.judged] @ matrix, right[: options.judged], options.neighbours)


def _refined(
    left: torch.Tensor, right: torch.Tensor, matrix: np.ndarray, options: AdversarialTraining
) -> tuple[np.ndarray, Agreement]:
    words = options.judged
    return refine(left[:words], right[:words], matrix, rounds=options.refinements, k=options.neighbours)


def _chance(
    left: torch.Tensor,
    right: torch.Tensor,
    options: AdversarialTraining,
    random: np.random.Generator,
    advance: Advance,
) -> Agreement:
    """What refinement makes of random rotations: it finds pairs in any data, and fits them."""
    reached = []
    for _ in range(CHANCES):
        reached.append(_refined(left, right, random_rotation(left.shape[1], random), options)[1])
        advance(1)
    return max(reached, key=lambda agreement: agreement.strength)


def _told(found: FoundMap) -> str:
    rotated = 0.0 if found.chance is None else found.chance.share
    return (
        f"frequent words agree {found.gain:.2f} times as well as under random rotations "
        f"({found.agreement.share:.0%} are one another's nearest, under random rotations {rotated:.0%})"
    )


def _refusal(best: FoundMap | None, options: AdversarialTraining) -> str:
    told = f": {_told(best)}" if best else ""
    return (
        f"the two spaces could not be aligned without a dictionary in {options.restarts} games{told}, "
        f"and {LEAST_GAIN} times are needed; train the "
        "vectors of both sides on more text of like content, try more restarts or another seed, or give a dictionary"
    )
