"""Word vectors by counting: what stands near a word, weighed by surprise, cut down to a few hundred numbers.

Positive pointwise mutual information of words and contexts with smoothed context frequencies, factored by a truncated
singular value decomposition (Levy, Goldberg and Dagan, 2015). It takes seconds
where skip-gram takes minutes, has no learning rate to diverge, and gives the same bytes for the same text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np
from scipy.sparse import coo_array, csr_array

from relexify.progress import Advance, track

__all__ = ["count_vectors"]

BLOCK = 4_000_000
"""Words whose neighbourhoods are counted at a time."""
CONTEXT_SMOOTHING = 0.75
SINGULAR_POWER = 0.5
OVERSAMPLING = 16
POWER_ITERATIONS = 3


def count_vectors(
    sentences: Callable[[], Iterable[list[str]]],
    vocabulary: Mapping[str, int],
    *,
    width: int,
    window: int,
    contexts: int,
    seed: int,
    lists: int | None = None,
) -> np.ndarray:
    """One vector of length one for each word of a vocabulary, float32 [words × width].

    Args:
        sentences: Starts one pass over the text.
        vocabulary: Words with their counts, most frequent first.
        width: Numbers a vector has.
        window: Words to either side that count, a near one more than a far one.
        contexts: How many of the most frequent words count as contexts.
        seed: Of the decomposition.
        lists: How many lists of words a pass has, for the progress bar.
    """
    rows = {word: row for row, word in enumerate(vocabulary)}
    contexts = min(contexts, len(rows))
    with track("counting neighbours", lists) as advance:
        counts = _cooccurrences(_numbered(sentences(), rows, window, advance), len(rows), contexts, window)
    information = _positive_information(counts)
    with track("factoring", POWER_ITERATIONS + 1) as advance:
        vectors = _factored(information, min(width, contexts), seed, advance)
    padded = np.zeros((len(rows), width), np.float32)
    padded[:, : vectors.shape[1]] = vectors
    return padded


def _numbered(
    sentences: Iterable[list[str]], rows: Mapping[str, int], window: int, advance: Advance
) -> Iterator[np.ndarray]:
    """Blocks of word numbers; −1 for words outside the vocabulary and between sentences."""
    block: list[int] = []
    gap = [-1] * window
    for sentence in sentences:
        block.extend([rows.get(word, -1) for word in sentence])
        block.extend(gap)
        advance(1)
        if len(block) > BLOCK:
            yield np.array(block, dtype=np.int32)
            block = []
    if block:
        yield np.array(block, dtype=np.int32)


def _cooccurrences(blocks: Iterable[np.ndarray], words: int, contexts: int, window: int) -> csr_array:
    """Σ 1/distance over all places where a context stands within the window of a word, [words × contexts]."""
    total = csr_array((words, contexts), dtype=np.float32)
    for block in blocks:
        for distance in range(1, window + 1):
            left, right = block[:-distance], block[distance:]
            inside = (left >= 0) & (right >= 0)
            for word, context in ((left[inside], right[inside]), (right[inside], left[inside])):
                kept = context < contexts
                weights = np.full(int(kept.sum()), 1 / distance, np.float32)
                total = total + coo_array((weights, (word[kept], context[kept])), shape=total.shape).tocsr()
    return total


def _positive_information(counts: csr_array) -> csr_array:
    """max(0, log p(word, context) / (p(word) p(context)^0.75)), float32 [words × contexts]."""
    entries = counts.tocoo()
    rows, columns = entries.coords
    of_words = np.bincount(rows, entries.data, counts.shape[0])
    of_contexts = np.bincount(columns, entries.data, counts.shape[1]) ** CONTEXT_SMOOTHING
    surprise = np.log(entries.data * of_contexts.sum() / (of_words[rows] * of_contexts[columns]))
    kept = surprise > 0
    return csr_array((surprise[kept].astype(np.float32), (rows[kept], columns[kept])), shape=counts.shape)


def _factored(matrix: csr_array, width: int, seed: int, advance: Advance) -> np.ndarray:
    """U Σ^½ of the largest singular values, rows at length one (randomised; Halko, Martinsson and Tropp, 2011)."""
    transposed = csr_array(matrix.T)
    columns = min(width + OVERSAMPLING, *matrix.shape)
    start = np.random.default_rng(seed).standard_normal((matrix.shape[1], columns), dtype=np.float32)
    basis, _ = np.linalg.qr(matrix @ start)
    for _ in range(POWER_ITERATIONS):
        inner, _ = np.linalg.qr(transposed @ basis)
        basis, _ = np.linalg.qr(matrix @ inner)
        advance(1)
    left, values, _ = np.linalg.svd((transposed @ basis).T, full_matrices=False)
    vectors = (basis @ left)[:, :width] * values[:width] ** SINGULAR_POWER
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    advance(1)
    normalised: np.ndarray = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)
    return normalised
