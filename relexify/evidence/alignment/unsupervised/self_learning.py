"""Self-learning: extend a small dictionary by mutual neighbours, fit the rotation again, and repeat.

After Artetxe, Labaka & Agirre (2017), *Learning bilingual word embeddings with (almost) no bilingual data*, but with
mutual neighbours by CSLS, as in the refinement of Conneau et al. (2018).
"""

from __future__ import annotations

import numpy as np

from relexify.device import AUTO
from relexify.evidence.alignment.unsupervised.options import AdversarialTraining
from relexify.evidence.alignment.unsupervised.spaces import fit_pairs, frequent_rows, prepare_space, refine
from relexify.evidence.vectors.word_vectors import WordVectors

__all__ = ["self_learn"]

WORDS = 5_000
"""Number of frequent words of each language among which neighbours are searched. In one trial on German text, 2,000
were worse."""


def self_learn(source: WordVectors, target: WordVectors, fitted: np.ndarray, *, device: str = AUTO) -> np.ndarray:
    """Improve a rotation that was fitted to few pairs; a `Refinement` for `align`.

    As in the search without a dictionary, neighbours are searched among centred vectors, and the final rotation is
    fitted to the original vectors.

    Args:
        source: Vectors of the source language, most frequent words first.
        target: Vectors of the target language, most frequent words first.
        fitted: The rotation to start from [d × d].
        device: The device for the search for neighbours.

    Returns:
        The rotation that was fitted to the last neighbours; `fitted` itself if no words are mutual neighbours.
    """
    options = AdversarialTraining()
    left, right = frequent_rows(source, WORDS), frequent_rows(target, WORDS)
    _, pairs = refine(
        prepare_space(left, options, device),
        prepare_space(right, options, device),
        fitted,
        rounds=options.refinements,
        k=options.neighbours,
    )
    return fit_pairs(left, right, pairs) if len(pairs) else fitted
