"""Tokens without a translation, from the translations of their neighbours in the target language.

e_x = Σ_{z ∈ J_x} softmax(cos(u_x, u_z) / τ) t_z over the k nearest target tokens J_x whose meaning t_z is known, from a
dictionary or from parallel text. All vectors u are of the target language, so a vector alignment with the source
language, which is often imprecise, is not needed.
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
"""A single neighbour is rarely a synonym: with the mean of twenty, rows of held-out dictionary words are predicted
better than with that of five."""


def translated_neighbours(
    source_tokenizer: AnyVocabulary,
    target: SubwordVectors,
    translated: Mixture,
    *,
    neighbours: int = NEIGHBOURS,
    temperature: float = 0.1,
    device: str = "cpu",
) -> Mixture:
    """Mix every covered token that has no translation from those of its neighbours; the others stay empty.

    Args:
        source_tokenizer: The model's tokenizer or its vocabulary.
        target: Vectors of the target tokens, in any space.
        translated: The tokens whose meaning is known, such as `translations` or `aligned_tokens` give them.
        neighbours: k.
        temperature: τ of the softmax.
        device: Where to search: `"cpu"` or a torch device.

    Raises:
        EvidenceError: No token with a translation has a vector.
    """
    # Digits and punctuation are near everything, and mean the same in both languages: they explain no word.
    words = np.array([not (form.is_special or form.is_neutral) for form in target.vocabulary.forms]) & target.covered
    known, unknown = np.flatnonzero(words & translated.known), np.flatnonzero(words & ~translated.known)
    if not len(known):
        raise EvidenceError("no token with a translation has a vector: are these vectors of the target language?")
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
