"""Tokens whose meaning is not known, from tokens of the target language whose meaning is (anchors).

e_x = Σ_z sparsemax(cos(u_x, u_z)) t_z over the anchors z and their meanings t_z. All vectors u are of the target
language, so a vector alignment with the source language, which is often imprecise, is not needed. If the anchors are
the tokens that both vocabularies have, this is FOCUS.
"""

from __future__ import annotations

import numpy as np
import scipy

from relexify.errors import EvidenceError
from relexify.evidence.vectors import SubwordVectors
from relexify.mixture import Mixture, Origin, mixture_of_weights, sparsemax_products
from relexify.neighbours import normalise_rows
from relexify.tokens import AnyVocabulary, vocabulary_of

__all__ = ["mix_anchors"]


def mix_anchors(
    source_tokenizer: AnyVocabulary, target: SubwordVectors, anchors: Mixture, *, device: str = "cpu"
) -> Mixture:
    """Mix every covered token that is no anchor from the anchors; anchors, special and other tokens stay empty.

    Args:
        source_tokenizer: The model's tokenizer or its vocabulary.
        target: Vectors of the target tokens, in any space.
        anchors: The tokens whose meaning is known, such as `shared`, `translations` or `aligned_tokens` give them.
        device: Where to multiply: `"cpu"` or a torch device.

    Raises:
        EvidenceError: No anchor has a vector.
    """
    vocabulary = target.vocabulary
    ordinary = target.covered & ~np.array([form.is_special for form in vocabulary.forms])
    known, unknown = np.flatnonzero(ordinary & anchors.known), np.flatnonzero(ordinary & ~anchors.known)
    if not len(known):
        raise EvidenceError(
            "no token that is translated or in both vocabularies has a vector: choose a method with other evidence"
        )
    vectors = normalise_rows(target.matrix)
    found = sparsemax_products(vectors[unknown], vectors[known], device=device)
    weights = scipy.sparse.csr_array(found @ anchors.weights[known]).tocoo()
    matrix = scipy.sparse.csr_array((weights.data, (unknown[weights.row], weights.col)), shape=anchors.weights.shape)
    return mixture_of_weights(
        matrix, vocabulary_of(source_tokenizer), vocabulary, method="anchors", origin=Origin.MIXED
    )
