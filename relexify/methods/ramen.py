"""RAMEN: translation probabilities of subwords, from parallel text or from aligned vectors (Tran, 2020).

E_target[i] = Σ_j α_ij E_source[j] (Eq. 1), with α_ij = p(e_j | ℓ_i) of aligned tokens (Eq. 2), or
A = sparsemax(U_target U_sourceᵀ) of subword vectors (Eq. 3). Rows without evidence are drawn from N(0, 1/d²).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import scipy

from relexify.evidence.vectors import SubwordVectors
from relexify.methods.parts.aligned import aligned_tokens
from relexify.methods.parts.copying import special
from relexify.methods.parts.token_space import WordComposition, check_subwords
from relexify.methods.registry import METHODS, Initialisation, Method
from relexify.mixture import Fallback, Mixture, Origin, empty_mixture, first_of, mixture_of_weights, sparsemax_products
from relexify.tokens import AnyVocabulary, vocabulary_of

if TYPE_CHECKING:
    from relexify.methods.inputs import Inputs

__all__ = ["ramen", "ramen_random", "ramen_vectors"]

TOP_WORDS = 50_000
"""Number of words of each language over which subword vectors are averaged (section 3.2)."""


def ramen(
    source_tokenizer: AnyVocabulary,
    target_tokenizer: AnyVocabulary,
    counts: scipy.sparse.csr_array,
    *,
    smoothing: float = 0.0,
    min_count: float = 1.0,
    overrides: Mapping[str, str] | None = None,
) -> Mixture:
    """Mix tokens by translation probability in parallel text (Eq. 2); special tokens are copied.

    Args:
        source_tokenizer: The model's tokenizer.
        target_tokenizer: The target language's tokenizer.
        counts: How often two tokens are aligned [target × source], as returned by `aligned_counts`.
        smoothing: A number that is added to the count of every pair with a count above 0.
        min_count: Pairs with a lower count are ignored.
        overrides: Source token by target token, as in `special`.
    """
    source, target = vocabulary_of(source_tokenizer), vocabulary_of(target_tokenizer)
    rows = aligned_tokens(source, target, counts, smoothing=smoothing, min_count=min_count)
    return _with_fallback(first_of(special(source, target, overrides=overrides), rows), "ramen")


def ramen_vectors(
    source: SubwordVectors, target: SubwordVectors, *, overrides: Mapping[str, str] | None = None, device: str = "cpu"
) -> Mixture:
    """Mix tokens by a sparsemax over the whole source vocabulary in aligned vectors (Eq. 3).

    Args:
        source: Vectors of the source tokens: averages of word vectors (Eq. 4); tokens without a vector are not used.
        target: Vectors of the target tokens, in the same space.
        overrides: Source token by target token, as in `special`.
        device: The device to multiply on: `"cpu"` or a torch device.

    Raises:
        InputError: The vectors of the two sides have different widths.
        EvidenceError: One side has no vectors.
    """
    check_subwords(source, target)
    rows, columns = np.flatnonzero(target.covered), np.flatnonzero(source.covered)
    covered = sparsemax_products(target.matrix[rows], source.matrix[columns], device=device).tocoo()  # A of Eq. 3
    shape = (len(target.vocabulary), len(source.vocabulary))
    weights = scipy.sparse.csr_array((covered.data, (rows[covered.row], columns[covered.col])), shape=shape)
    mixed = mixture_of_weights(weights, source.vocabulary, target.vocabulary, method="ramen", origin=Origin.MIXED)
    special_tokens = special(source.vocabulary, target.vocabulary, overrides=overrides)
    return _with_fallback(first_of(special_tokens, mixed), "ramen-vectors")


def ramen_random(source_tokenizer: AnyVocabulary, target_tokenizer: AnyVocabulary) -> Mixture:
    """Leave all rows empty, even of special tokens; they are drawn from N(0, 1/d²) during grafting (Table 3)."""
    source, target = vocabulary_of(source_tokenizer), vocabulary_of(target_tokenizer)
    return empty_mixture(source, target, method="ramen-random", fallback=Fallback.NARROW)


def _with_fallback(mixture: Mixture, method: str) -> Mixture:
    return replace(mixture, method=method, fallback=Fallback.NARROW)


def _build_vectors(inputs: Inputs) -> Initialisation:
    space = inputs.token_space(with_dictionary=False, words=WordComposition(TOP_WORDS), unit_length=True)
    mixture = ramen_vectors(space.source, space.target, overrides=inputs.overrides, device=inputs.device)
    return Initialisation(mixture, rotation=space.rotation)


METHODS.add(
    "ramen",
    Method(
        becomes="the source tokens it is aligned with, by translation probability",
        evidence="parallel text",
        paper="Tran 2020, section 2.1",
        build=lambda inputs: ramen(
            inputs.source,
            inputs.target,
            inputs.aligned_token_counts,
            smoothing=inputs.evidence.aligning.smoothing,
            min_count=inputs.evidence.aligning.min_count,
            overrides=inputs.overrides,
        ),
        needs=("bitext",),
        uses=("overrides",),
        revision=2,
    ),
)
METHODS.add(
    "ramen-vectors",
    Method(
        becomes="all source tokens, by similarity in vectors aligned on equal words",
        evidence="vectors or text of both languages",
        paper="Tran 2020, sections 2.1 and 3.2",
        build=_build_vectors,
        uses=("vectors", "overrides"),
        revision=2,
    ),
)
METHODS.add(
    "ramen-random",
    Method(
        becomes="a draw from N(0, 1/d²): a baseline",
        evidence="nothing",
        paper="Tran 2020, section 5.1",
        build=lambda inputs: ramen_random(inputs.source, inputs.target),
        is_baseline=True,
    ),
)
