"""N-grams for words that were never seen: fitted so that they spell the words that were."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.sparse import csr_array

from relexify.evidence.vectors.ngrams import Ngrams, ngram_buckets
from relexify.evidence.vectors.word_vectors import WordVectors
from relexify.progress import track

__all__ = ["fit_ngrams"]

RIDGE = 0.03
ITERATIONS = 15
MOST_WEIGHT = 1_000
"""Occurrences beyond which a word weighs no more."""


def fit_ngrams(
    words: Sequence[str], vectors: np.ndarray, counts: np.ndarray, *, shortest: int, longest: int, buckets: int
) -> WordVectors:
    """Give word vectors n-grams in fastText's manner.

    The n-gram rows are a ridge regression: the mean over a word's n-grams shall be near the word's vector. The words'
    own rows are then what is missing, so that `lookup` gives each known word exactly its vector, and any other text
    the mean of the n-grams that known words share with it.

    Args:
        words: Most frequent first.
        vectors: [words × d].
        counts: [words].
        shortest: Letters of the shortest n-gram.
        longest: Letters of the longest.
        buckets: Into how many buckets n-grams are hashed.
    """
    starts, hashes = ngram_buckets(words, shortest, longest, buckets)
    known, columns = np.unique(hashes, return_inverse=True)
    sizes = np.diff(starts)
    spelled = csr_array((np.ones(len(columns), np.float32), columns, starts), shape=(len(words), len(known)))
    means = csr_array((np.repeat(1 / np.maximum(sizes, 1), sizes).astype(np.float32), columns, starts), spelled.shape)
    importance = np.sqrt(np.minimum(counts, MOST_WEIGHT)).astype(np.float32)
    rows = _ridge(means, vectors.astype(np.float32), importance / importance.mean())
    own = (sizes + 1)[:, None] * vectors - spelled @ rows
    grams = Ngrams(rows, shortest, longest, buckets, known)
    return WordVectors(list(words), own.astype(np.float32), np.asarray(counts, np.int64), grams)


def _ridge(design: csr_array, wanted: np.ndarray, importance: np.ndarray) -> np.ndarray:
    """argmin_G Σ_w f_w ‖(A G)_w − v_w‖² + λ ‖G‖² by conjugate gradients, all columns at once, [n-grams × d]."""
    weights = importance[:, None]
    back = csr_array(design.T)
    squared = design.copy()
    squared.data = squared.data**2
    diagonal = (squared.T @ importance + RIDGE)[:, None].astype(np.float32)
    solution = np.zeros((design.shape[1], wanted.shape[1]), np.float32)
    residual = back @ (weights * wanted)
    direction = residual / diagonal
    progress_made = np.einsum("nd,nd->d", residual, direction)
    with track("fitting n-grams", ITERATIONS) as advance:
        for _ in range(ITERATIONS):
            image = back @ (weights * (design @ direction)) + RIDGE * direction
            step = progress_made / np.maximum(np.einsum("nd,nd->d", direction, image), 1e-20)
            solution += step * direction
            residual -= step * image
            scaled = residual / diagonal
            next_progress = np.einsum("nd,nd->d", residual, scaled)
            direction = scaled + next_progress / np.maximum(progress_made, 1e-20) * direction
            progress_made = next_progress
            advance(1)
    return solution
