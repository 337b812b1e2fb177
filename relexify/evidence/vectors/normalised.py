"""Vectors of normalised texts (lower case, no accents) from vectors of words that are not normalised.

The tokens of an uncased tokenizer are spelled `herr` and `uber`, but word vectors are for `Herr` and `über`. Let N be
the tokenizer's normaliser, f_w the frequency of a word and v_w its vector. The vector of a text t is then

    Σ f_w v_w / Σ f_w   over the words w with N(w) = t, if there are any;
    the mean of u_g     over the n-grams g of t otherwise.

Here, u_g = Σ f_w r_h / Σ f_w over all occurrences, in words w, of n-grams h that normalisation turns into g; r_h is the
row of h.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import scipy

from relexify.evidence.lexicon import vector_frequencies
from relexify.evidence.vectors.mapped_rows import gather_rows
from relexify.evidence.vectors.ngrams import Ngrams, ngram_buckets
from relexify.evidence.vectors.word_vectors import WordVectors

__all__ = ["lookup_normalised"]

_BUCKETS = (1 << 31) - 1  # enough that n-grams of normalised texts hardly ever collide
_WORDS_AT_ONCE = 1 << 16
_NEGLIGIBLE = 1e-9  # weight of an n-gram of the normalised text itself: it matters only if no word contains the n-gram


def lookup_normalised(vectors: WordVectors, texts: Sequence[str], normalise: Callable[[str], str]) -> np.ndarray:
    """Return the vectors of normalised texts.

    If normalisation changes no word, the result is bit-identical to a plain lookup.

    Args:
        vectors: Vectors of words that were not normalised.
        texts: Distinct texts; texts that normalisation would change are looked up unchanged.
        normalise: Normalises a word.

    Returns:
        float32 [texts × width]; a zero row for a text without any evidence.
    """
    found = vectors.lookup(texts)
    names = [normalise(word) for word in vectors.words]
    changed = [name for word, name in zip(vectors.words, names, strict=True) if name != word]
    if not changed:
        return found
    frequencies = vector_frequencies(vectors)
    weights = np.array([max(frequencies[word], _NEGLIGIBLE) for word in vectors.words])
    indices = {text: index for index, text in enumerate(texts) if text and normalise(text) == text}

    whole = {text: row for row, text in enumerate(indices.keys() & set(changed))}
    spellings = [row for row, name in enumerate(names) if name in whole]
    lines = [whole[names[row]] for row in spellings]
    shares = scipy.sparse.csr_array((weights[spellings], (lines, range(len(lines)))), shape=(len(whole), len(lines)))
    means = _row_means(shares, vectors.lookup([vectors.words[row] for row in spellings]))
    found[[indices[text] for text in whole]] = means

    if vectors.ngrams is None:
        return found
    known = set(names)
    pieces = _containing(changed, [text for text in indices if text not in known], vectors.ngrams)
    if pieces:
        ngrams = _normalised_ngrams(vectors.ngrams, [*vectors.words, *pieces], [*names, *pieces], weights)
        composed = replace(vectors, words=(), matrix=vectors.matrix[:0], counts=None, ngrams=ngrams)
        found[[indices[text] for text in pieces]] = composed.lookup(pieces)
    return found


def _containing(changed: list[str], texts: list[str], ngrams: Ngrams) -> list[str]:
    """Return the texts that contain an n-gram of a changed word."""
    _, of_changed = ngram_buckets(changed, ngrams.minimum, ngrams.maximum, _BUCKETS)
    indptr, ids = ngram_buckets(texts, ngrams.minimum, ngrams.maximum, _BUCKETS)
    hits = np.concatenate([[0], np.cumsum(np.isin(ids, of_changed))])
    return [text for text, hit in zip(texts, np.diff(hits[indptr]), strict=True) if hit]


def _normalised_ngrams(ngrams: Ngrams, words: list[str], names: list[str], weights: np.ndarray) -> Ngrams:
    """Return u_g for the n-grams of the texts that come after the weighted words.

    Args:
        ngrams: The n-grams of the words as they are written.
        words: Words, then texts.
        names: The words and texts, normalised.
        weights: Frequencies of the words, [words].
    """
    texts = names[len(weights) :]
    _, ids = ngram_buckets(texts, ngrams.minimum, ngrams.maximum, _BUCKETS)
    needed = np.unique(ids)
    total = scipy.sparse.csr_array((len(needed), len(ngrams.matrix)))
    # Only words whose letters correspond one to one to those of the normalised word.
    kept = [index for index, (word, name) in enumerate(zip(words, names, strict=True)) if len(word) == len(name)]
    weights = np.concatenate([weights, np.full(len(texts), _NEGLIGIBLE)])
    for start in range(0, len(kept), _WORDS_AT_ONCE):
        block = kept[start : start + _WORDS_AT_ONCE]
        indptr, to = ngram_buckets([names[index] for index in block], ngrams.minimum, ngrams.maximum, _BUCKETS)
        _, buckets = ngram_buckets([words[index] for index in block], ngrams.minimum, ngrams.maximum, ngrams.buckets)
        rows, is_known = ngrams.rows_of_buckets(buckets)
        lines = np.minimum(np.searchsorted(needed, to), len(needed) - 1)
        used = is_known & (needed[lines] == to)
        amounts = np.repeat(weights[block], np.diff(indptr))[used]
        total = total + scipy.sparse.csr_array((amounts, (lines[used], rows[used])), shape=total.shape)
    columns = np.unique(total.indices)
    covered = np.flatnonzero(np.diff(total.indptr))
    means = _row_means(total[covered][:, columns], gather_rows(ngrams.matrix, columns))
    return Ngrams(means, ngrams.minimum, ngrams.maximum, _BUCKETS, known=needed[covered])


def _row_means(shares: scipy.sparse.csr_array, vectors: np.ndarray) -> np.ndarray:
    """Return the mean of the vectors under the weights of each row, float32 [rows × width]."""
    totals = np.asarray(shares.sum(axis=1)).ravel()
    means: np.ndarray = (scipy.sparse.diags_array(1 / totals) @ shares).astype(np.float32) @ vectors
    return means
