"""FOCUS: a target token is mixed from the tokens in both vocabularies (Dobler and de Melo, 2023).

e_x = Σ_y sparsemax(cos(u_x, u_y)) e_y over the shared tokens y, with vectors u of the target tokens, trained on text
in the target language that is split into them. Shared tokens are copied.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import scipy

from relexify.errors import EvidenceError
from relexify.evidence.vectors import SubwordVectors
from relexify.methods.parts.copying import shared, special
from relexify.methods.registry import METHODS, Method
from relexify.mixture import Mixture, Origin, first_of, mixture_of_weights, sparsemax_products
from relexify.neighbours import normalise_rows
from relexify.tokens import AnyVocabulary, vocabulary_of

__all__ = ["focus"]


def focus(
    source_tokenizer: AnyVocabulary,
    target: SubwordVectors,
    *,
    overrides: Mapping[str, str] | None = None,
    device: str = "cpu",
) -> Mixture:
    """Copy shared tokens, and mix the others from them by similarity in the target language.

    Args:
        source_tokenizer: The model's tokenizer.
        target: Vectors of the target tokens, trained on text that the target tokenizer has split.
        overrides: Source token by target token, as in `special`.
        device: The device to multiply on: `"cpu"` or a torch device.

    Raises:
        EvidenceError: No shared token has a vector.
    """
    source, vocabulary = vocabulary_of(source_tokenizer), target.vocabulary
    copied = shared(source, vocabulary)
    anchors = np.flatnonzero(copied.known & target.covered)
    if not len(anchors):
        raise EvidenceError(
            "the two vocabularies share no token that has a vector: choose a method with other evidence"
        )
    ordinary = ~np.array([form.is_special for form in vocabulary.forms])
    rows = np.flatnonzero(target.covered & ordinary & ~copied.known)
    vectors = normalise_rows(target.matrix)
    anchor_weights = sparsemax_products(vectors[rows], vectors[anchors], device=device)  # [rows × anchors]
    # Each anchor represents the source token that it is copied from.
    weights = scipy.sparse.csr_array(anchor_weights @ copied.weights[anchors]).tocoo()
    shape = (len(vocabulary), len(source))
    matrix = scipy.sparse.csr_array((weights.data, (rows[weights.row], weights.col)), shape=shape)
    mixed = mixture_of_weights(matrix, source, vocabulary, method="focus", origin=Origin.MIXED)
    return first_of(special(source, vocabulary, overrides=overrides), copied, mixed, method="focus")


METHODS.add(
    "focus",
    Method(
        becomes="shared tokens, by similarity in vectors of the target tokens",
        evidence="text in the target language",
        paper="Dobler and de Melo 2023",
        build=lambda inputs: focus(
            inputs.source, inputs.target_token_vectors, overrides=inputs.overrides, device=inputs.device
        ),
        uses=("overrides",),
    ),
)
