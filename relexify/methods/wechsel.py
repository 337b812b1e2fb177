"""WECHSEL: a target token is a softmax over its nearest source tokens in aligned vectors (Minixhofer et al., 2022).

e_x = Σ_{y ∈ J_x} softmax(cos(u_x, u_y) / τ) e_y over the k nearest source tokens J_x (section 3.2).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from relexify.errors import EvidenceError, InputError
from relexify.evidence.vectors import SubwordVectors, subwords_from_ngrams, subwords_from_words
from relexify.evidence.vectors.word_vectors import WordVectors
from relexify.methods.copying import special
from relexify.methods.registry import METHODS, Initialisation, Method
from relexify.mixture import Mixture, Origin, first_of, mixture_of_weights, rows_to_csr, softmax_weights
from relexify.neighbours import nearest

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

    from relexify.methods.inputs import Inputs, TokenSpace

__all__ = [
    "Neighbours",
    "Subwords",
    "check_subwords",
    "neighbours_in_space",
    "search_neighbours",
    "subword_vectors",
    "vector_neighbours",
    "wechsel",
    "weigh_neighbours",
]

Subwords = Literal["auto", "ngrams", "words"]
"""How vectors of tokens are composed, see `subword_vectors`."""


def wechsel(
    source_tokenizer: PreTrainedTokenizerFast,
    target_tokenizer: PreTrainedTokenizerFast,
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
    """Build WECHSEL's mixture: special tokens copied, all others from their neighbours, tokens without a vector empty.

    Args:
        source_tokenizer: The model's tokenizer.
        target_tokenizer: The target language's tokenizer.
        source: Vectors of the source language, already in one space with the target's.
        target: Vectors of the target language.
        neighbours: k, how many source tokens mix into one.
        temperature: τ of the softmax.
        subwords: Compose tokens from `"ngrams"` (section 3.1) or from the `"words"` they occur in (Appendix D);
            `"auto"` takes n-grams on each side that has them.
        source_frequencies: Word frequencies, for `"words"`; the vectors' counts if None.
        target_frequencies: Word frequencies of the target language.
        top_words: For `"words"`, use only this number of the most frequent words.
        device: Where to search: `"cpu"` or a torch device.
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
    """Mix every covered target token from its nearest source tokens; the others stay empty.

    Raises:
        InputError: The two sides have different widths.
        EvidenceError: One side has no vector at all.
    """
    found = search_neighbours(source, target, neighbours=neighbours, device=device)
    return weigh_neighbours(found, source, target, temperature=temperature)


@dataclass(frozen=True)
class Neighbours:
    """The source tokens that are nearest to each covered target token.

    Attributes:
        rows: Ids of the covered target tokens [n].
        columns: Ids of their neighbours, from the nearest outwards [n × k].
        similarities: Cosines [n × k].
    """

    rows: np.ndarray
    columns: np.ndarray
    similarities: np.ndarray

    def first(self, neighbours: int) -> Neighbours:
        """Return only the first neighbours, as a search for fewer would have found them."""
        return Neighbours(self.rows, self.columns[:, :neighbours], self.similarities[:, :neighbours])


def search_neighbours(
    source: SubwordVectors, target: SubwordVectors, *, neighbours: int = 10, device: str = "cpu"
) -> Neighbours:
    """Find the nearest source tokens of every covered target token.

    Raises:
        InputError: The two sides have different widths.
        EvidenceError: One side has no vector at all.
    """
    check_subwords(source, target)
    rows = np.flatnonzero(target.covered)
    columns, similarities = nearest(target.matrix[rows], source.matrix, neighbours, device=device)
    return Neighbours(rows, columns, similarities)


def check_subwords(source: SubwordVectors, target: SubwordVectors) -> None:
    """Validate that vectors of tokens can be compared.

    Raises:
        InputError: The two sides have different widths.
        EvidenceError: One side has no vector at all.
    """
    if source.matrix.shape[1] != target.matrix.shape[1]:
        raise InputError(
            f"source vectors are {source.matrix.shape[1]} wide and target vectors {target.matrix.shape[1]}: "
            "align them with reduce on, or use vectors of one width"
        )
    for side, vectors in (("source", source), ("target", target)):
        if not vectors.covered.any():
            raise EvidenceError(f"no token of the {side} vocabulary has a vector: are these the right word vectors?")


def weigh_neighbours(
    found: Neighbours, source: SubwordVectors, target: SubwordVectors, *, temperature: float = 0.1
) -> Mixture:
    """Mix every target token from its neighbours, weighted by softmax(cosine / τ); tokens without any stay empty."""
    weights = softmax_weights(found.similarities, temperature)
    shape = (len(target.vocabulary), len(source.vocabulary))
    matrix = rows_to_csr(found.rows, found.columns, weights, shape)
    return mixture_of_weights(matrix, source.vocabulary, target.vocabulary, method="vectors", origin=Origin.MIXED)


def subword_vectors(
    tokenizer: PreTrainedTokenizerFast,
    vectors: WordVectors,
    subwords: Subwords,
    frequencies: Mapping[str, float] | None = None,
    top_words: int | None = None,
) -> SubwordVectors:
    """Return a vector for every token, from n-grams or from words; `"auto"` takes n-grams if there are any.

    Raises:
        EvidenceError: N-grams are requested of vectors that have none.
    """
    if subwords == "words" or (subwords == "auto" and vectors.ngrams is None):
        return subwords_from_words(tokenizer, vectors, frequencies=frequencies, top_words=top_words)
    if vectors.ngrams is None:
        raise EvidenceError(
            "these vectors carry no n-grams: use a fastText .bin file, or compose tokens from words (wechsel-tfr)"
        )
    return subwords_from_ngrams(tokenizer, vectors)


def neighbours_in_space(space: TokenSpace, inputs: Inputs) -> Mixture:
    """Mix every covered target token from its neighbours with the k and τ of the inputs.

    Raises:
        InputError: The two sides have different widths.
        EvidenceError: One side has no vector at all.
    """
    found = space.nearest(inputs.neighbours, device=inputs.device)
    return weigh_neighbours(found, space.source, space.target, temperature=inputs.temperature)


def _build(inputs: Inputs, subwords: Subwords, method: str) -> Initialisation:
    space = inputs.token_space(subwords)
    special_tokens = special(inputs.source, inputs.target, overrides=inputs.overrides)
    mixture = first_of(special_tokens, neighbours_in_space(space, inputs), method=method)
    return Initialisation(mixture, rotation=space.rotation)


METHODS.add(
    "wechsel",
    Method(
        becomes="a softmax over its nearest source tokens in aligned vectors, tokens composed of n-grams",
        evidence="vectors or text of both languages, a dictionary; fastText vectors, for their n-grams",
        paper="Minixhofer et al. 2022, section 3",
        build=lambda inputs: _build(inputs, "auto", "wechsel"),
        uses=("vectors", "dictionary", "neighbours", "overrides"),
    ),
)
METHODS.add(
    "wechsel-tfr",
    Method(
        becomes="a softmax over its nearest source tokens in aligned vectors, tokens composed of the words they occur "
        "in, by frequency",
        evidence="vectors or text of both languages, a dictionary; any vectors",
        paper="Minixhofer et al. 2022, Appendix D",
        build=lambda inputs: _build(inputs, "words", "wechsel-tfr"),
        uses=("vectors", "dictionary", "neighbours", "overrides"),
    ),
)
