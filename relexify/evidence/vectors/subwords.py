"""Static vectors for the tokens of a vocabulary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from relexify.evidence.lexicon import vector_frequencies
from relexify.evidence.vectors.word_vectors import WordVectors
from relexify.neighbours import normalise_rows
from relexify.progress import track
from relexify.tokens.pieces import encode_words
from relexify.tokens.vocabulary import Vocabulary, vocabulary_of

__all__ = ["SubwordVectors", "subwords_from_ngrams", "subwords_from_words"]


@dataclass(frozen=True)
class SubwordVectors:
    """A vector for every token that has evidence.

    Attributes:
        vocabulary: The tokens.
        matrix: [tokens × width] float32, zero rows where nothing is known.
        covered: [tokens] bool, whether the row is more than zero.
    """

    vocabulary: Vocabulary
    matrix: np.ndarray
    covered: np.ndarray


def subwords_from_ngrams(tokenizer: Any, vectors: WordVectors) -> SubwordVectors:
    """Compose each token from the n-grams it contains (WECHSEL, section 3.1).

    A token is looked up as the text it writes, without surrounding white space; a token that is a known word counts
    its word vector too, and a special token is looked up as it is spelled. Broken characters have no n-grams.
    """
    vocabulary = vocabulary_of(tokenizer)
    texts = ["" if form.is_byte else form.text.strip() for form in vocabulary.forms]
    places = {text: place for place, text in enumerate(dict.fromkeys(texts))}  # many stand with and without a space
    found = vectors.lookup(list(places))
    return _subwords(vocabulary, found[[places[text] for text in texts]])


def subwords_from_words(
    tokenizer: Any,
    vectors: WordVectors,
    *,
    frequencies: Mapping[str, float] | None = None,
    top_words: int | None = None,
    unit_length: bool = False,
) -> SubwordVectors:
    """Average, for each token, the vectors of the words it occurs in, weighted by frequency (WECHSEL, Appendix D).

    u_x = Σ_v f_v w_v / Σ_v f_v over the words v that contain x when tokenised at the start of a text or after a space;
    a word that contains it in both counts twice. Special tokens have no vector, even where a word spells one.

    Args:
        tokenizer: Of the vocabulary.
        vectors: With or without n-grams.
        frequencies: Of the words; where not given, the vectors' counts, or by their rank where they carry none.
        top_words: Use only the most frequent words.
        unit_length: Bring every word's vector to length one first.
    """
    vocabulary = vocabulary_of(tokenizer)
    known_frequencies = vector_frequencies(vectors) if frequencies is None else frequencies
    words, weights = _most_frequent(list(vectors.words), known_frequencies, top_words)
    occurrences = _occurrences(tokenizer, words, len(vocabulary)) @ csr_array(
        (weights, (np.arange(len(words)), np.arange(len(words)))), shape=(len(words), len(words))
    )
    totals = np.asarray(occurrences.sum(axis=1)).ravel()
    known = vectors.lookup(words)
    known = normalise_rows(known) if unit_length else known
    summed = occurrences @ known.astype(np.float64)
    matrix = np.divide(summed, totals[:, None], out=np.zeros_like(summed), where=totals[:, None] > 0)
    matrix[[form.is_special for form in vocabulary.forms]] = 0
    return _subwords(vocabulary, matrix.astype(np.float32))


def _most_frequent(
    words: list[str], frequencies: Mapping[str, float], limit: int | None
) -> tuple[list[str], np.ndarray]:
    """So many words with their frequencies, float64 [words]; of equal ones, those that come first."""
    weights = np.array([frequencies.get(word, 0.0) for word in words], dtype=np.float64)
    if limit is None or limit >= len(words):
        return words, weights
    chosen = np.sort(np.argsort(-weights, kind="stable")[:limit])
    return [words[place] for place in chosen], weights[chosen]


def _subwords(vocabulary: Vocabulary, matrix: np.ndarray) -> SubwordVectors:
    return SubwordVectors(vocabulary, matrix, np.any(matrix != 0, axis=1))


def _occurrences(tokenizer: Any, words: list[str], tokens: int) -> csr_array:
    """How many of the two spellings of each word contain each token, [tokens × words]."""
    rows: list[int] = []
    columns: list[int] = []
    with track("tokenising words", len(words)) as advance:
        for start in range(0, len(words), 10_000):
            block = words[start : start + 10_000]
            for after_space in (False, True):
                for place, ids in enumerate(encode_words(tokenizer, block, after_space=after_space), start):
                    distinct = set(ids)
                    rows.extend(distinct)
                    columns.extend([place] * len(distinct))
            advance(len(block))
    return csr_array((np.ones(len(rows)), (rows, columns)), shape=(tokens, len(words)))
