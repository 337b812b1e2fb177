"""Compose static vectors for the tokens of a vocabulary from word vectors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy

from relexify.errors import EvidenceError
from relexify.evidence.lexicon import vector_frequencies
from relexify.evidence.vectors.normalised import lookup_normalised
from relexify.evidence.vectors.word_vectors import WordVectors
from relexify.neighbours import normalise_rows
from relexify.progress import track
from relexify.tokens.normalisation import normaliser_of
from relexify.tokens.pieces import encode_words
from relexify.tokens.vocabulary import AnyTokenizer, Vocabulary, vocabulary_of

__all__ = ["SubwordVectors", "Subwords", "subword_vectors", "subwords_from_ngrams", "subwords_from_words"]

Subwords = Literal["auto", "ngrams", "words"]
"""The parts that vectors of tokens are composed from, see `subword_vectors`."""


@dataclass(frozen=True)
class SubwordVectors:
    """A vector for every token that has evidence.

    Attributes:
        vocabulary: The tokens.
        matrix: [tokens × width] float32, zero rows for tokens without evidence.
        covered: [tokens] bool, whether the row is not zero.
    """

    vocabulary: Vocabulary
    matrix: np.ndarray
    covered: np.ndarray


def subword_vectors(
    tokenizer: AnyTokenizer,
    vectors: WordVectors,
    subwords: Subwords,
    frequencies: Mapping[str, float] | None = None,
    top_words: int | None = None,
) -> SubwordVectors:
    """Return a vector for every token, from n-grams or from words.

    Args:
        tokenizer: The tokenizer of the vocabulary.
        vectors: Word vectors with or without n-grams.
        subwords: `"ngrams"`, `"words"`, or `"auto"`: n-grams if there are any.
        frequencies: Frequencies of the words, for `"words"`, see `subwords_from_words`.
        top_words: For `"words"`, use only this many of the most frequent words.

    Raises:
        EvidenceError: N-grams are requested, but the vectors have none.
    """
    if subwords == "words" or (subwords == "auto" and vectors.ngrams is None):
        return subwords_from_words(tokenizer, vectors, frequencies=frequencies, top_words=top_words)
    if vectors.ngrams is None:
        raise EvidenceError(
            "these vectors have no n-grams: use a fastText .bin file, or compose tokens from words (subwords='words')"
        )
    return subwords_from_ngrams(tokenizer, vectors)


def subwords_from_ngrams(tokenizer: AnyTokenizer, vectors: WordVectors) -> SubwordVectors:
    """Compose each token from the n-grams it contains (WECHSEL, section 3.1).

    A token is looked up by its text, without surrounding white space. If the text is a known word, its word vector is
    included; a special token is looked up by its spelling. Parts of characters have no n-grams. If the tokenizer
    normalises text, a token represents all words that are normalised to its text, see `lookup_normalised`.
    """
    vocabulary = vocabulary_of(tokenizer)
    texts = ["" if form.is_byte else form.text.strip() for form in vocabulary.forms]
    # Many texts belong to two tokens, with and without a space before them; look each up only once.
    rows = {text: row for row, text in enumerate(dict.fromkeys(texts))}
    normalise = normaliser_of(tokenizer)
    found = vectors.lookup(list(rows)) if normalise is None else lookup_normalised(vectors, list(rows), normalise)
    return _subwords(vocabulary, found[[rows[text] for text in texts]])


def subwords_from_words(
    tokenizer: AnyTokenizer,
    vectors: WordVectors,
    *,
    frequencies: Mapping[str, float] | None = None,
    top_words: int | None = None,
    unit_length: bool = False,
) -> SubwordVectors:
    """Average, for each token, the vectors of the words it occurs in, weighted by frequency (WECHSEL, Appendix D).

    u_x = Σ_v f_v w_v / Σ_v f_v over the words v that contain x when tokenised at the start of a text or after a space;
    words that contain x in both cases count twice. Special tokens have no vector, even if a word has the same spelling.

    Args:
        tokenizer: The tokenizer of the vocabulary.
        vectors: Word vectors with or without n-grams.
        frequencies: Frequencies of the words; by default the vectors' counts, or 1/rank if they have none.
        top_words: Use only this many of the most frequent words.
        unit_length: Scale every word's vector to length 1 first.
    """
    vocabulary = vocabulary_of(tokenizer)
    known_frequencies = vector_frequencies(vectors) if frequencies is None else frequencies
    words = list(vectors.words)
    weights = np.array([known_frequencies.get(word, 0.0) for word in words], dtype=np.float64)
    if top_words is not None and top_words < len(words):
        chosen = np.sort(np.argsort(-weights, kind="stable")[:top_words])
        words, weights = [words[row] for row in chosen], weights[chosen]
    occurrences = _occurrences(tokenizer, words, len(vocabulary)) @ scipy.sparse.csr_array(
        (weights, (np.arange(len(words)), np.arange(len(words)))), shape=(len(words), len(words))
    )
    totals = np.asarray(occurrences.sum(axis=1)).ravel()
    known = vectors.lookup(words)
    if unit_length:
        known = normalise_rows(known)
    summed = occurrences @ known.astype(np.float64)
    matrix = np.divide(summed, totals[:, None], out=np.zeros_like(summed), where=totals[:, None] > 0)
    matrix[[form.is_special for form in vocabulary.forms]] = 0
    return _subwords(vocabulary, matrix.astype(np.float32))


def _subwords(vocabulary: Vocabulary, matrix: np.ndarray) -> SubwordVectors:
    return SubwordVectors(vocabulary, matrix, np.any(matrix != 0, axis=1))


def _occurrences(tokenizer: AnyTokenizer, words: list[str], tokens: int) -> scipy.sparse.csr_array:
    """Count, for each token and word, in how many of two positions (text start, after a space) the word contains it.

    Returns:
        Counts from 0 to 2 [tokens × words].
    """
    rows: list[int] = []
    columns: list[int] = []
    with track("tokenising words", len(words)) as advance:
        for start in range(0, len(words), 10_000):
            block = words[start : start + 10_000]
            for after_space in (False, True):
                for word, ids in enumerate(encode_words(tokenizer, block, after_space=after_space), start):
                    distinct = set(ids)
                    rows.extend(distinct)
                    columns.extend([word] * len(distinct))
            advance(len(block))
    return scipy.sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=(tokens, len(words)))
