"""Word vectors of two languages in one space, without any dictionary."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.linalg import orthogonal_procrustes

from relexify.evidence.alignment.procrustes import (
    Rotation,
    RotationDirection,
    find_reductions,
    measure_translation_quality,
    reduce_width,
)
from relexify.evidence.alignment.unsupervised.options import AdversarialTraining, resolve_options
from relexify.evidence.alignment.unsupervised.search import find_map
from relexify.evidence.lexicon import BilingualLexicon
from relexify.evidence.vectors import WordVectors
from relexify.neighbours import normalise_rows

__all__ = ["align_unsupervised"]


def align_unsupervised(
    source: WordVectors,
    target: WordVectors,
    *,
    options: AdversarialTraining | None = None,
    lexicon: BilingualLexicon | None = None,
    direction: RotationDirection = "source-to-target",
    reduce: bool = False,
    seed: int = 0,
    device: str = "cpu",
) -> Rotation:
    """Find the rotation from the shapes of the two spaces alone (Conneau et al., 2018; 3.1, TreLM).

    The map is found among centred vectors. The words that are one another's nearest under it are then the dictionary
    that the rotation of the vectors as they are is fitted on.

    Args:
        source: Vectors of the source language, most frequent words first.
        target: Vectors of the target language, most frequent words first.
        options: How to train.
        lexicon: A dictionary to measure the quality with; it has no part in the alignment.
        direction: Which language is moved into the other's space.
        reduce: Project the wider vectors on their principal directions where the widths differ.
        seed: Of all that is random.
        device: Where to train.

    Raises:
        InputError: The widths differ and `reduce` is off, or vectors hold NaN.
        EvidenceError: There are too few words, or the map found cannot be told from chance.
    """
    source_reduction, target_reduction = find_reductions(source, target, reduce)
    sides = reduce_width(source, source_reduction), reduce_width(target, target_reduction)
    options = resolve_options(options, sides[0].width)
    words = max(options.frequent, options.judged or 0)
    left, right = (_frequent(side, words) for side in sides)
    found = find_map(left, right, options, seed=seed, device=device)
    pairs = found.agreement
    fitted, _ = orthogonal_procrustes(
        normalise_rows(left[pairs.source]).astype(np.float64), normalise_rows(right[pairs.target]).astype(np.float64)
    )
    forwards = direction == "source-to-target"
    matrix = fitted if forwards else fitted.T
    moved_reduction = source_reduction if forwards else target_reduction
    rotation = Rotation(
        matrix=matrix if moved_reduction is None else moved_reduction @ matrix,
        pairs_used=len(pairs),
        coverage=pairs.share,
        direction=direction,
        source_reduction=source_reduction,
        target_reduction=target_reduction,
    )
    if lexicon is None:
        return rotation
    return replace(rotation, quality=measure_translation_quality(*rotation.apply(source, target), lexicon, seed=seed))


def _frequent(vectors: WordVectors, words: int) -> np.ndarray:
    """The most frequent words that have a direction, [n × d]: their rows are those that the map's pairs speak of."""
    rows = vectors.lookup(vectors.words[:words])
    kept: np.ndarray = rows[np.any(rows != 0, axis=1)]
    return kept
