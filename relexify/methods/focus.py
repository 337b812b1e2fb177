"""FOCUS: a new token is mixed from the tokens that both vocabularies have (Dobler and de Melo, 2023).

e_x = Σ_y sparsemax(cos(u_x, u_y)) e_y over the shared tokens y, with vectors u of the new tokens, trained on text of
the new language cut into them. Shared tokens are copied.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from relexify.errors import EvidenceError
from relexify.evidence.vectors import SubwordVectors
from relexify.methods.copying import shared, special
from relexify.mixture import Mixture, Origin, first_of, mixture_of_weights, sparsemax_products
from relexify.neighbours import normalise_rows
from relexify.tokens import vocabulary_of

__all__ = ["focus"]


def focus(
    source_tokenizer: Any, target: SubwordVectors, *, overrides: Mapping[str, str] | None = None, device: str = "cpu"
) -> Mixture:
    """Copy shared tokens, and mix the others from them by similarity in the new language.

    Args:
        source_tokenizer: The model's tokenizer.
        target: Vectors of the new tokens, trained on text that the new tokenizer has cut.
        overrides: Source token by target token, as `special` takes them.
        device: Where to multiply: `"cpu"` or a torch device.

    Raises:
        EvidenceError: No shared token has a vector.
    """
    source, new = vocabulary_of(source_tokenizer), target.vocabulary
    copied = shared(source, new)
    anchors = np.flatnonzero(copied.known & target.covered)
    if not len(anchors):
        raise EvidenceError(
            "the two vocabularies share no token that the text has vectors of: choose a method with other evidence"
        )
    ordinary = ~np.array([form.is_special for form in new.forms])
    rows = np.flatnonzero(target.covered & ordinary & ~copied.known)
    vectors = normalise_rows(target.matrix)
    found = sparsemax_products(vectors[rows], vectors[anchors], device=device)
    # Each anchor stands for the one old token that it is copied from.
    weights = csr_array(found @ copied.weights[anchors]).tocoo()
    shape = (len(new), len(source))
    matrix = csr_array((weights.data, (rows[weights.row], weights.col)), shape=shape)
    mixed = mixture_of_weights(matrix, source, new, method="focus", origin=Origin.MIXED)
    return first_of(special(source, new, overrides=overrides), copied, mixed, method="focus")
