"""CLP-Transfer: a target token is mixed from all shared tokens, by similarity in a model of the target language.

e_x = Σ_y cos(u_x, u_y) e_y / Σ_y cos(u_x, u_y) over the shared tokens y, with the rows u of the embedding of a smaller
model that already has the target tokenizer (Ostendorff and Rehm, 2023). Shared tokens are copied.

Every shared token has a weight in every row, so the mixture would be a dense matrix of many gigabytes. However, a
cosine is a product of unit rows û, so the sum equals û_x (Σ_y û_y e_yᵀ), with the same matrix [d' × d] for all tokens.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from relexify.errors import EvidenceError
from relexify.evidence.vectors import SubwordVectors
from relexify.methods.parts.copying import shared, special
from relexify.methods.registry import METHODS, Initialisation, Method
from relexify.mixture import PrecomputedRows, first_of
from relexify.neighbours import normalise_rows
from relexify.tokens import AnyVocabulary, vocabulary_of

__all__ = ["clp"]

MIN_SIMILARITY = 0.01
"""Minimum mean cosine of a token with the shared tokens; below it, division by almost zero would give huge rows."""


def clp(
    source_tokenizer: AnyVocabulary,
    target: SubwordVectors,
    embedding: np.ndarray,
    *,
    output: np.ndarray | None = None,
    overrides: Mapping[str, str] | None = None,
) -> Initialisation:
    """Copy shared tokens, and compute the others from all of them.

    Args:
        source_tokenizer: The model's tokenizer.
        target: Rows of the target tokens in a model of the target language.
        embedding: The model's input embedding [tokens × d].
        output: The model's output embedding [tokens × d], if it is not tied to the input embedding.
        overrides: Source token by target token, as in `special`.

    Raises:
        EvidenceError: No shared token has a row in the model of the target language.
    """
    source, vocabulary = vocabulary_of(source_tokenizer), target.vocabulary
    copied = first_of(special(source, vocabulary, overrides=overrides), shared(source, vocabulary), method="clp")
    ordinary = np.array([not form.is_special for form in vocabulary.forms])
    anchors = np.flatnonzero(copied.known & target.covered & ordinary)
    if not len(anchors):
        raise EvidenceError(
            "the model of the target language shares no token with the source model: choose a method with other "
            "evidence"
        )
    missing = np.flatnonzero(~copied.known & target.covered & ordinary)
    directions = normalise_rows(target.matrix)
    totals = directions[missing] @ directions[anchors].sum(axis=0, dtype=np.float64)  # Σ_y cos(u_x, u_y) [missing]
    is_similar = totals >= MIN_SIMILARITY * len(anchors)
    ids = missing[is_similar]
    scale = (1 / totals[is_similar]).astype(np.float32)[:, None]

    def combine(table: np.ndarray) -> np.ndarray:
        """Return e_x of all these tokens [ids × d]; the inner product Σ_y û_y e_yᵀ is [d' × d]."""
        rows: np.ndarray = directions[ids] @ (directions[anchors].T @ copied.weights[anchors].dot(table)) * scale
        return rows

    size = len(source)
    rows = PrecomputedRows(ids, combine(embedding[:size]), None if output is None else combine(output[:size]))
    return Initialisation(copied, precomputed=rows)


METHODS.add(
    "clp",
    Method(
        becomes="all shared tokens, by similarity in a model of the target language",
        evidence="a small model of the target language",
        paper="Ostendorff and Rehm 2023",
        build=lambda inputs: clp(
            inputs.source,
            inputs.donor_vectors,
            inputs.embedding,
            output=inputs.output_embedding,
            overrides=inputs.overrides,
        ),
        needs=("donor",),
        uses=("embedding", "overrides"),
    ),
)
