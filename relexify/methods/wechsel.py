"""WECHSEL: a target token is a softmax over its nearest source tokens in aligned vectors (Minixhofer et al., 2022).

e_x = Σ_{y ∈ J_x} softmax(cos(u_x, u_y) / τ) e_y over the k nearest source tokens J_x (section 3.2).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from relexify.evidence.vectors import Subwords, SubwordVectors, WordVectors, subword_vectors
from relexify.methods.parts.copying import special
from relexify.methods.parts.token_space import Neighbours, TokenSpace, WordComposition, search_neighbours
from relexify.methods.registry import METHODS, Initialisation, Method
from relexify.mixture import Mixture, Origin, first_of, mixture_of_weights, rows_to_csr, softmax_weights
from relexify.tokens import AnyTokenizer

if TYPE_CHECKING:
    from relexify.methods.inputs import Inputs

__all__ = [
    "neighbours_in_space",
    "vector_neighbours",
    "wechsel",
    "weigh_neighbours",
]


def wechsel(
    source_tokenizer: AnyTokenizer,
    target_tokenizer: AnyTokenizer,
    source: WordVectors,
    target: WordVectors,
    *,
    neighbours: int = 10,
    temperature: float = 0.1,
    subwords: Subwords = "auto",
    source_frequencies: Mapping[str, float] | None = None,
    target_frequencies: Mapping[str, float] | None = None,
    top_words: int | None = None,
    device: str = "cpu",
) -> Mixture:
    """Build WECHSEL's mixture: copy special tokens, mix others from neighbours, leave tokens without a vector empty.

    Args:
        source_tokenizer: The model's tokenizer.
        target_tokenizer: The target language's tokenizer.
        source: Vectors of the source language, already in one space with the target's.
        target: Vectors of the target language.
        neighbours: k, the number of source tokens that are mixed into one target token.
        temperature: τ of the softmax.
        subwords: Compute token vectors from `"ngrams"` (section 3.1) or from the `"words"` that contain the tokens
            (Appendix D); `"auto"` uses n-grams on each side that has them.
        source_frequencies: Word frequencies of the source language, for `"words"`; if None, the vectors' counts.
        target_frequencies: The same for the target language.
        top_words: For `"words"`, use only this number of the most frequent words.
        device: The device to search on: `"cpu"` or a torch device.
    """
    source_tokens = subword_vectors(source_tokenizer, source, subwords, source_frequencies, top_words)
    target_tokens = subword_vectors(target_tokenizer, target, subwords, target_frequencies, top_words)
    mixed = vector_neighbours(
        source_tokens, target_tokens, neighbours=neighbours, temperature=temperature, device=device
    )
    return first_of(special(source_tokens.vocabulary, target_tokens.vocabulary), mixed, method="wechsel")


def vector_neighbours(
    source: SubwordVectors,
    target: SubwordVectors,
    *,
    neighbours: int = 10,
    temperature: float = 0.1,
    device: str = "cpu",
) -> Mixture:
    """Mix every target token with a vector from its nearest source tokens; the others remain empty.

    Raises:
        InputError: The vectors of the two sides have different widths.
        EvidenceError: One side has no vectors.
    """
    found = search_neighbours(source, target, neighbours=neighbours, device=device)
    return weigh_neighbours(found, source, target, temperature=temperature)


def weigh_neighbours(
    found: Neighbours, source: SubwordVectors, target: SubwordVectors, *, temperature: float = 0.1
) -> Mixture:
    """Mix target tokens from their neighbours, weighted by softmax(cosine / τ); without neighbours, rows stay empty."""
    weights = softmax_weights(found.similarities, temperature)
    shape = (len(target.vocabulary), len(source.vocabulary))
    matrix = rows_to_csr(found.rows, found.columns, weights, shape)
    return mixture_of_weights(matrix, source.vocabulary, target.vocabulary, method="vectors", origin=Origin.MIXED)


def neighbours_in_space(space: TokenSpace, inputs: Inputs) -> Mixture:
    """Mix every target token with a vector from its nearest source tokens, with the k and τ of the inputs.

    Raises:
        InputError: The vectors of the two sides have different widths.
        EvidenceError: One side has no vectors.
    """
    found = space.nearest(inputs.neighbours, device=inputs.device)
    return weigh_neighbours(found, space.source, space.target, temperature=inputs.temperature)


def _build(inputs: Inputs, subwords: Subwords, method: str, words: WordComposition | None = None) -> Initialisation:
    space = inputs.token_space(subwords, words=words)
    special_tokens = special(inputs.source, inputs.target, overrides=inputs.overrides)
    mixture = first_of(special_tokens, neighbours_in_space(space, inputs), method=method)
    return Initialisation(mixture, rotation=space.rotation)


METHODS.add(
    "wechsel",
    Method(
        becomes="its nearest source tokens in aligned vectors, built from n-grams",
        evidence="vectors or text of both languages, a dictionary",
        paper="Minixhofer et al. 2022, section 3",
        build=lambda inputs: _build(inputs, "auto", "wechsel"),
        uses=("vectors", "dictionary", "neighbours", "overrides"),
        revision=2,
    ),
)
METHODS.add(
    "wechsel-tfr",
    Method(
        becomes="its nearest source tokens in aligned vectors, built from words",
        evidence="vectors or text of both languages, a dictionary",
        paper="Minixhofer et al. 2022, Appendix D",
        build=lambda inputs: _build(inputs, "words", "wechsel-tfr", inputs.own_options(WordComposition)),
        uses=("vectors", "dictionary", "neighbours", "overrides"),
        options=WordComposition,
    ),
)
