"""Mix tokens without a translation from the translations of their neighbours in the target language.

e_x = Σ_{z ∈ J_x} softmax(cos(u_x, u_z) / τ) t_z over the k nearest target tokens J_x whose meaning t_z is known from a
dictionary or parallel text. All vectors u are of the target language, so no vector alignment with the source language
is needed, which would often be imprecise.
"""

from __future__ import annotations

import numpy as np
import scipy

from relexify.errors import EvidenceError
from relexify.evidence.vectors import SubwordVectors
from relexify.mixture import Mixture, Origin, mixture_of_weights, rows_to_csr, softmax_weights
from relexify.neighbours import nearest
from relexify.tokens import AnyVocabulary, vocabulary_of

__all__ = ["NEIGHBOURS", "translated_neighbours"]

NEIGHBOURS = 20
"""Number of neighbours. A single neighbour is rarely a synonym; means of twenty predict the rows of held-out dictionary
words better than means of five."""


def translated_neighbours(
    source_tokenizer: AnyVocabulary,
    target: SubwordVectors,
    translated: Mixture,
    *,
    neighbours: int = NEIGHBOURS,
    temperature: float = 0.1,
    device: str = "cpu",
) -> Mixture:
    """Mix every token that has a vector but no translation from the translations of its neighbours.

    All other rows stay empty.

    Args:
        source_tokenizer: The model's tokenizer or its vocabulary.
        target: Vectors of the target tokens, in any space.
        translated: The tokens whose meaning is known, as returned by `translations` or `aligned_tokens`.
        neighbours: k, the number of translated tokens that are mixed into one token.
        temperature: τ of the softmax.
        device: The device to search on: `"cpu"` or a torch device.

    Raises:
        EvidenceError: No token with a translation has a vector.
    """
    # Digits and punctuation are excluded: they are near all words, but tell nothing about the meaning of a word.
    words = np.array([not (form.is_special or form.is_neutral) for form in target.vocabulary.forms]) & target.covered
    known, unknown = np.flatnonzero(words & translated.known), np.flatnonzero(words & ~translated.known)
    if not len(known):
        raise EvidenceError(
            "no token with a translation has a vector: check that these are vectors of the target language"
        )
    columns, similarities = nearest(target.matrix[unknown], target.matrix[known], neighbours, device=device)
    weights = softmax_weights(similarities, temperature)
    size = len(target.vocabulary)
    similar = rows_to_csr(unknown, known[columns], weights, (size, size))
    return mixture_of_weights(
        scipy.sparse.csr_array(similar @ translated.weights),
        vocabulary_of(source_tokenizer),
        target.vocabulary,
        method="translated neighbours",
        origin=Origin.MIXED,
    )
