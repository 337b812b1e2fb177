"""Find a map between two spaces without known pairs, and align the word vectors of two languages with it.

There are three searches: frequency ranks, principal axes, adversarial training. Each is tried if the previous one found
no clear map. Refinement finds pairs in any data and fits a map to them, so every result is compared with the result of
refining random rotations.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

import numpy as np
import torch

from relexify.device import AUTO
from relexify.errors import EvidenceError
from relexify.evidence.alignment.procrustes import (
    Rotation,
    RotationDirection,
    find_reductions,
    measure_translation_quality,
    reduce_width,
)
from relexify.evidence.alignment.unsupervised.adversarial import train_map
from relexify.evidence.alignment.unsupervised.frequency import map_by_frequency
from relexify.evidence.alignment.unsupervised.options import (
    AdversarialTraining,
    resolve_options,
    validate_adversarial_training,
)
from relexify.evidence.alignment.unsupervised.spaces import (
    Agreement,
    fit_pairs,
    frequent_rows,
    mutual_neighbours,
    prepare_space,
    principal_axes,
    random_rotation,
    refine,
    validate_spaces,
)
from relexify.evidence.lexicon import BilingualLexicon
from relexify.evidence.vectors import WordVectors
from relexify.progress import track

__all__ = ["FoundMap", "align_unsupervised", "find_map"]

CHANCES = 3
"""Number of random rotations that a map is compared with."""
CLEAR_GAIN = 2.0
"""If the map by principal axes has this gain over chance, adversarial training is skipped."""
LEAST_GAIN = 1.25
"""Minimum gain over chance. Unrelated clouds reached 1.15; rotated clouds with noise 1.8 and more."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class FoundMap:
    """A map from one space into another, found without known pairs.

    Attributes:
        matrix: Orthogonal after refinement, float64 [d × d]: a prepared row v becomes v @ matrix.
        agreement: How well the spaces agree under the map.
        chance: The best agreement that random rotations of the same data reached with the same refinement; None for a
            map by frequency, which has its own control.
        games: Number of runs of adversarial training until it was found; 0 if frequency or principal axes sufficed.
        stability: For a trusted map by frequency, its stability, see `FrequencyMap`; 0 for other maps.
    """

    matrix: np.ndarray
    agreement: Agreement
    chance: Agreement | None
    games: int
    stability: float = 0.0

    @property
    def gain(self) -> float:
        """Strength of the agreement relative to chance; about 1 if nothing was found."""
        if self.chance is None:
            return 0.0
        return self.agreement.strength / max(self.chance.strength, 1e-9)

    @property
    def converged(self) -> bool:
        """Whether the map is distinguishable from chance."""
        return self.gain >= LEAST_GAIN or self.stability > 0

    def __str__(self) -> str:
        rotated = 0.0 if self.chance is None else self.chance.share
        return (
            f"frequent words agree {self.gain:.2f} times as well as under random rotations "
            f"({self.agreement.share:.0%} are mutual nearest neighbours, {rotated:.0%} under random rotations)"
        )


def align_unsupervised(
    source: WordVectors,
    target: WordVectors,
    *,
    options: AdversarialTraining | None = None,
    lexicon: BilingualLexicon | None = None,
    direction: RotationDirection = "source-to-target",
    reduce: bool = False,
    seed: int = 0,
    device: str = AUTO,
) -> Rotation:
    """Find a rotation between the vectors of two languages without a dictionary (Conneau et al., 2018; 3.1, TreLM).

    The map is searched for among centred vectors. The mutual neighbours under this map are then used as a dictionary,
    to which the rotation of the original vectors is fitted.

    Args:
        source: Vectors of the source language, most frequent words first.
        target: Vectors of the target language, most frequent words first.
        options: Options of the search.
        lexicon: A dictionary to measure the quality with; it does not affect the rotation.
        direction: The language whose vectors are rotated into the space of the other.
        reduce: If the widths differ, project the wider vectors on their principal directions.
        seed: Random seed.
        device: Where to train: `cpu`, `cuda`, or `auto` for a GPU if there is one.

    Raises:
        InputError: The widths differ and `reduce` is off, or vectors contain NaN.
        EvidenceError: There are too few words, or the best map is not distinguishable from chance.
    """
    source_reduction, target_reduction = find_reductions(source, target, reduce)
    narrow_source, narrow_target = reduce_width(source, source_reduction), reduce_width(target, target_reduction)
    options = resolve_options(options, narrow_source.width)
    words = max(options.frequent, options.judged or 0)
    left, right = frequent_rows(narrow_source, words), frequent_rows(narrow_target, words)
    found = find_map(left, right, options, seed=seed, device=device)
    pairs = found.agreement
    rotation = Rotation.from_fit(
        fit_pairs(left, right, pairs),
        direction,
        source_reduction=source_reduction,
        target_reduction=target_reduction,
        pairs_used=len(pairs),
        coverage=pairs.share,
    )
    if lexicon is None:
        return rotation
    moved_source, moved_target = rotation.apply(source, target)
    return replace(rotation, quality=measure_translation_quality(moved_source, moved_target, lexicon, seed=seed))


def find_map(
    source: np.ndarray,
    target: np.ndarray,
    options: AdversarialTraining | None = None,
    *,
    insist: bool = True,
    seed: int = 0,
    device: str = AUTO,
) -> FoundMap:
    """Find the orthogonal map under which two clouds of vectors look alike (Eqs. 1 and 2, TreLM).

    Frequency ranks are tried first, then the principal axes of both spaces, then adversarial training, which starts
    from the map by principal axes and from random rotations, until a run is distinguishable from chance.

    Args:
        source: Vectors to map [n × d], most frequent first.
        target: Vectors that stay fixed [m × d], most frequent first.
        options: Options of the search.
        insist: Raise an error if the best map is not distinguishable from chance.
        seed: Random seed; on the same device, the same seed gives the same map.
        device: Where to train: `cpu`, `cuda`, or `auto` for a GPU if there is one.

    Raises:
        InputError: Widths differ, a value is NaN or infinite, or an option is out of range.
        EvidenceError: There are too few words, or, with `insist`, no map was found.
    """
    validate_adversarial_training(options or AdversarialTraining())
    validate_spaces(source, target)
    options = resolve_options(options, source.shape[1])
    source_rows, target_rows = (np.flatnonzero(np.any(rows != 0, axis=1)) for rows in (source, target))
    search = _Search(
        prepare_space(source[source_rows], options, device),
        prepare_space(target[target_rows], options, device),
        options,
    )
    best = search.by_frequency() if options.frequency_map else None
    if best is None:
        best = search.by_shape(seed)
    if best is None or (insist and not best.converged):
        result = f": {best}" if best else ""
        raise EvidenceError(
            f"the two spaces could not be aligned without a dictionary in {options.restarts} games{result}, "
            f"but {LEAST_GAIN} times are needed; train the vectors of both sides on more text of similar content, "
            "try more restarts or another seed, or give a dictionary"
        )
    pairs = best.agreement
    return replace(best, agreement=replace(pairs, source=source_rows[pairs.source], target=target_rows[pairs.target]))


@dataclass(frozen=True, eq=False)
class _Search:
    """The searches for a map.

    Attributes:
        source: Prepared vectors [n × d].
        target: Prepared vectors [m × d].
        options: Options of the search, with `judged` resolved.
    """

    source: torch.Tensor
    target: torch.Tensor
    options: AdversarialTraining

    def by_frequency(self) -> FoundMap | None:
        """Return the map by frequency ranks if it is trusted; it is not refined, because this does not improve it."""
        words = self.options.frequency_words
        found = map_by_frequency(self.source[:words], self.target[:words], spread=self.options.frequency_spread)
        logger.info(
            "frequency: maps with different starts agree on %.1f%% of the words, and on %.1f%% in a control without "
            "any correspondence",
            100 * found.stability,
            100 * found.chance,
        )
        if not found.stable:
            return None
        agreement = self._judge(torch.from_numpy(found.matrix).to(self.source))
        return FoundMap(found.matrix, agreement, None, 0, found.stability)

    def by_shape(self, seed: int) -> FoundMap | None:
        """Return the best map of the principal axes and of adversarial training."""
        random = np.random.default_rng(seed)
        width = self.source.shape[1]
        with track("comparing with random rotations", CHANCES + int(self.options.principal_axes)) as advance:
            reached = []
            for _ in range(CHANCES):
                reached.append(self._refine(random_rotation(width, random))[1])
                advance(1)
            chance = max(reached, key=lambda agreement: agreement.strength)
            best = None
            if self.options.principal_axes:
                best = self._by_axes(chance)
                advance(1)
                logger.info("principal axes: %s", best)
        if best is not None and best.gain >= CLEAR_GAIN:
            return best
        return self._by_training(best, chance, random)

    def _by_axes(self, chance: Agreement) -> FoundMap:
        """Match the principal axes of both spaces for several numbers of frequent words, and refine the best match."""
        judged = self.options.judged or len(self.source)
        candidates = (
            torch.from_numpy(principal_axes(self.source[:words]) @ principal_axes(self.target[:words]).T)
            for words in (judged // 2, judged, 2 * judged, self.options.frequent)
        )
        best = max(candidates, key=lambda matrix: self._judge(matrix.to(self.source)).closeness)
        matrix, agreement = self._refine(best.numpy())
        return FoundMap(matrix, agreement, chance, 0)

    def _by_training(self, best: FoundMap | None, chance: Agreement, random: np.random.Generator) -> FoundMap | None:
        """Train adversarially until a map is distinguishable from chance; return the best, `best` included.

        The first run starts at the map found before, the others at random rotations.
        """
        options, source, target = self.options, self.source, self.target
        start = None if best is None else best.matrix
        length = options.epochs * options.steps
        with track("aligning without a dictionary", options.restarts * length) as advance:
            for game in range(options.restarts):
                rotation = random_rotation(source.shape[1], random)  # even if unused, so that later draws stay the same
                trained = train_map(
                    source[: options.frequent],
                    target[: options.frequent],
                    torch.from_numpy(rotation if game or start is None else start).to(source),
                    options,
                    lambda matrix: self._judge(matrix).closeness,
                    generator=torch.Generator(source.device).manual_seed(int(random.integers(2**62))),
                    advance=advance,
                )
                matrix, agreement = self._refine(trained.cpu().double().numpy())
                found = FoundMap(matrix, agreement, chance, game + 1)
                logger.info("game %d: %s", game + 1, found)
                if best is None or found.gain > best.gain:
                    best = found
                if best.converged:
                    advance((options.restarts - game - 1) * length)
                    break
        return best

    def _judge(self, matrix: torch.Tensor) -> Agreement:
        words = self.options.judged
        return mutual_neighbours(self.source[:words] @ matrix, self.target[:words], self.options.neighbours)

    def _refine(self, matrix: np.ndarray) -> tuple[np.ndarray, Agreement]:
        options, words = self.options, self.options.judged
        source, target = self.source[:words], self.target[:words]
        return refine(source, target, matrix, rounds=options.refinements, k=options.neighbours)
