"""Word vectors by counting contexts, and n-grams fitted to them for unseen words.

The positive pointwise mutual information of words and contexts, with smoothed context frequencies, is factored by a
truncated singular value decomposition (Levy, Goldberg and Dagan, 2015). This takes seconds where skip-gram takes
minutes, cannot diverge, and gives the same bytes for the same text. The n-grams are fitted by ridge regression.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise

import numpy as np
import scipy

from relexify.evidence.vectors.ngrams import Ngrams, ngram_buckets
from relexify.evidence.vectors.sentences import Sentences, SplitText, batches_of, map_sentences, of_lines
from relexify.evidence.vectors.shares import SharedCount
from relexify.evidence.vectors.word_vectors import WordVectors
from relexify.progress import Advance, track
from relexify.storage.shards import Shards

__all__ = ["BlockEnds", "count_vectors", "fit_ngrams", "shared_pairs"]

BLOCK = 4_000_000
"""Number of words whose contexts are counted at a time."""
MOST_PAIRS = 100_000_000
"""Maximum number of pairs of word and context while counting (0.8 GB); if there are more, the rarer half is dropped. A
few hundred megabytes of text have fewer."""
CONTEXT_SMOOTHING = 0.75
"""Exponent of context frequencies, as in word2vec, because PMI overrates rare contexts."""
SINGULAR_POWER = 0.5
"""Exponent of the singular values; 0.5 is better than 1 (Levy et al., 2015, section 5)."""
OVERSAMPLING = 16
"""Number of extra columns of the randomised SVD."""
POWER_ITERATIONS = 3
"""Number of power iterations of the randomised SVD."""
RIDGE = 0.03
"""λ of the ridge regression of n-grams."""
RIDGE_ITERATIONS = 15
"""Number of iterations of conjugate gradients in the ridge regression."""
MOST_WEIGHT = 1_000
"""Occurrences of a word beyond this number do not increase its weight in the regression."""


def count_vectors(
    sentences: Sentences,
    vocabulary: Mapping[str, int],
    *,
    width: int,
    window: int,
    contexts: int,
    seed: int,
    lists: int | None = None,
    blocks: Iterable[scipy.sparse.csr_array] | None = None,
) -> np.ndarray:
    """Return a unit vector for each word of a vocabulary, float32 [words × width].

    Args:
        sentences: Starts one pass over the text.
        vocabulary: Words with their counts, most frequent first.
        width: Number of components of a vector.
        window: Number of words on either side that count as context, weighted by 1/distance.
        contexts: Number of most frequent words that are used as contexts.
        seed: Random seed of the decomposition.
        lists: Number of lists of words in a pass, for the progress bar.
        blocks: The pairs of word and context in each block of the text, if several hosts count them.
    """
    rows = {word: row for row, word in enumerate(vocabulary)}
    contexts = min(contexts, len(rows))
    shape = len(rows), contexts
    with track("counting neighbours", lists if blocks is None else None) as advance:
        if blocks is None:
            blocks = (_pairs(block, shape, window) for block in _word_rows(sentences, rows, window, advance))
        counts = _add_up(blocks, shape)
    information = _positive_information(counts)
    with track("training word vectors", POWER_ITERATIONS + 1) as advance:
        vectors = _factored(information, min(width, contexts), seed, advance)
    padded = np.zeros((len(rows), width), np.float32)
    padded[:, : vectors.shape[1]] = vectors
    return padded


class BlockEnds:
    """Computes the blocks of `_word_rows` from the lengths of sentences, so that they are known before a second pass.

    Attributes:
        window: As for `count_vectors`.
        ends: The number of sentences up to the end of each block; without the last block until `finish` is called.
    """

    def __init__(self, window: int) -> None:
        self.window = window
        self.ends: list[int] = []
        self._sentences = 0
        self._size = 0  # rows since the last end

    def add(self, lengths: Iterable[int]) -> None:
        """Add sentences, given their numbers of words."""
        for length in lengths:
            self._sentences += 1
            self._size += length + self.window
            if self._size > BLOCK:
                self.finish()

    def finish(self) -> None:
        """End the last block."""
        if self._size:
            self.ends.append(self._sentences)
            self._size = 0


def shared_pairs(
    text: SplitText, shards: Shards, vocabulary: Mapping[str, int], ends: Sequence[int], *, window: int, contexts: int
) -> SharedCount[scipy.sparse.csr_array]:
    """Return a `SharedCount` in which each host counts the pairs in some blocks of a text.

    Args:
        text: The text.
        shards: Where the hosts exchange their counts.
        vocabulary: As for `count_vectors`.
        ends: The ends of the blocks, as in `BlockEnds`.
        window: As for `count_vectors`.
        contexts: As for `count_vectors`.
    """
    rows = {word: row for row, word in enumerate(vocabulary)}
    shape = len(rows), min(contexts, len(rows))

    def batches() -> Iterator[tuple[int, list[str]]]:
        lines = iter(text.lines)
        for number, (start, end) in enumerate(pairwise([0, *ends])):
            for batch in batches_of(islice(lines, end - start)):
                yield number, batch

    def combine(parts: list[tuple[np.ndarray, np.ndarray]]) -> scipy.sparse.csr_array:
        return _pairs(np.concatenate([found for found, _ in parts]), shape, window)

    return SharedCount(
        "pairs",
        shards,
        batches=batches,
        count=of_lines(text, _RowsOfWords(rows, window)),
        combine=combine,
        save=_save_pairs,
        load=lambda content: _load_pairs(content, shape),
    )


def fit_ngrams(
    words: Sequence[str], vectors: np.ndarray, counts: np.ndarray, *, shortest: int, longest: int, buckets: int
) -> WordVectors:
    """Fit character n-grams, as in fastText, to word vectors.

    The n-gram rows are fitted by ridge regression: the mean over a word's n-grams should be close to the word's vector.
    The words' own rows contain the remaining difference. `lookup` thus returns exactly the given vector for each known
    word, and for any other text the mean of the n-grams that it shares with known words.

    Args:
        words: Most frequent first.
        vectors: [words × d].
        counts: [words].
        shortest: Characters of the shortest n-gram.
        longest: Characters of the longest n-gram.
        buckets: Number of hash buckets.
    """
    starts, hashes = ngram_buckets(words, shortest, longest, buckets)
    known, columns = np.unique(hashes, return_inverse=True)
    sizes = np.diff(starts)
    spelled = scipy.sparse.csr_array(
        (np.ones(len(columns), np.float32), columns, starts), shape=(len(words), len(known))
    )
    means = scipy.sparse.csr_array(
        (np.repeat(1 / np.maximum(sizes, 1), sizes).astype(np.float32), columns, starts), spelled.shape
    )
    importance = np.sqrt(np.minimum(counts, MOST_WEIGHT)).astype(np.float32)
    rows = _ridge(means, vectors.astype(np.float32), importance / importance.mean())
    # `lookup` averages a word's own row and its n-gram rows: solve (own + Σ rows) / (n + 1) = vector for the own row.
    own = (sizes + 1)[:, None] * vectors - spelled @ rows
    grams = Ngrams(rows, shortest, longest, buckets, known)
    return WordVectors(list(words), own.astype(np.float32), np.asarray(counts, np.int64), grams)


@dataclass(frozen=True)
class _RowsOfWords:
    """Returns the rows of the words of sentences as one array, and the end of each sentence in it.

    Unknown words have row −1. Rows of −1 also separate sentences, so that no window spans two sentences.
    """

    rows: Mapping[str, int]
    window: int

    def __call__(self, sentences: list[list[str]]) -> tuple[np.ndarray, np.ndarray]:
        gap = [-1] * self.window
        found: list[int] = []
        ends: list[int] = []
        for sentence in sentences:
            found.extend([self.rows.get(word, -1) for word in sentence])
            found.extend(gap)
            ends.append(len(found))
        return np.array(found, dtype=np.int32), np.array(ends, dtype=np.int64)


def _word_rows(sentences: Sentences, rows: Mapping[str, int], window: int, advance: Advance) -> Iterator[np.ndarray]:
    """Yield blocks of word rows; each ends at the first end of a sentence after `BLOCK` rows."""
    held: list[np.ndarray] = []
    size = 0
    for found, ends in map_sentences(_RowsOfWords(rows, window), sentences):
        start = 0
        while (last := np.searchsorted(ends, start + BLOCK - size, side="right")) < len(ends):
            yield np.concatenate([*held, found[start : ends[last]]])
            held, size, start = [], 0, int(ends[last])
        held.append(found[start:])
        size += len(found) - start
        advance(len(ends))
    if size:
        yield np.concatenate(held)


def _pairs(block: np.ndarray, shape: tuple[int, int], window: int) -> scipy.sparse.csr_array:
    """Return Σ 1/distance over all occurrences of a context in the window of a word in a block, [words × contexts].

    Args:
        block: Rows of words, as `_word_rows` yields them.
        shape: Numbers of words and of contexts.
        window: As for `count_vectors`.
    """
    pairs = scipy.sparse.csr_array(shape, dtype=np.float32)
    for distance in range(1, window + 1):
        left, right = block[:-distance], block[distance:]
        inside = (left >= 0) & (right >= 0)
        for word, context in ((left[inside], right[inside]), (right[inside], left[inside])):
            kept = context < shape[1]
            weights = np.full(int(kept.sum()), 1 / distance, np.float32)
            pairs = pairs + scipy.sparse.coo_array((weights, (word[kept], context[kept])), shape=shape).tocsr()
    return pairs


def _add_up(blocks: Iterable[scipy.sparse.csr_array], shape: tuple[int, int]) -> scipy.sparse.csr_array:
    """Return the sum over all blocks, [words × contexts]; if there are too many pairs, drop the rarer half."""
    total = scipy.sparse.csr_array(shape, dtype=np.float32)
    for block in blocks:
        total = total + block
        if total.nnz > MOST_PAIRS:
            # Pairs that are as rare as the median are dropped too, so this may be more than half of the pairs.
            total.data[total.data <= np.median(total.data)] = 0
            total.eliminate_zeros()
    return total


def _save_pairs(pairs: scipy.sparse.csr_array) -> bytes:
    """Return a sparse matrix as compressed bytes, less than half of its size in memory."""
    stream = io.BytesIO()
    for array in (pairs.indptr, pairs.indices, pairs.data):
        np.save(stream, array, allow_pickle=False)
    return zlib.compress(stream.getbuffer(), level=1)


def _load_pairs(content: bytes, shape: tuple[int, int]) -> scipy.sparse.csr_array:
    """Read what `_save_pairs` returns."""
    stream = io.BytesIO(zlib.decompress(content))
    starts, columns, values = (np.load(stream, allow_pickle=False) for _ in range(3))
    return scipy.sparse.csr_array((values, columns, starts), shape=shape)


def _positive_information(counts: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
    """Return max(0, log p(word, context) / (p(word) p(context)^0.75)), float32 [words × contexts]."""
    entries = counts.tocoo()
    rows, columns = entries.coords
    of_words = np.bincount(rows, entries.data, counts.shape[0])
    of_contexts = np.bincount(columns, entries.data, counts.shape[1]) ** CONTEXT_SMOOTHING
    surprise = np.log(entries.data * of_contexts.sum() / (of_words[rows] * of_contexts[columns]))
    kept = surprise > 0
    return scipy.sparse.csr_array((surprise[kept].astype(np.float32), (rows[kept], columns[kept])), shape=counts.shape)


def _factored(matrix: scipy.sparse.csr_array, width: int, seed: int, advance: Advance) -> np.ndarray:
    """Return U Σ^½ of the largest singular values, rows normalised (randomised SVD; Halko et al., 2011)."""
    transposed = scipy.sparse.csr_array(matrix.T)
    columns = min(width + OVERSAMPLING, *matrix.shape)
    start = np.random.default_rng(seed).standard_normal((matrix.shape[1], columns), dtype=np.float32)
    basis, _ = np.linalg.qr(matrix @ start)
    for _ in range(POWER_ITERATIONS):
        inner, _ = np.linalg.qr(transposed @ basis)
        basis, _ = np.linalg.qr(matrix @ inner)
        advance(1)
    # basis.T @ matrix is small [columns × contexts]. Its left singular vectors, multiplied by the basis, are the left
    # singular vectors of the matrix.
    left, values, _ = np.linalg.svd((transposed @ basis).T, full_matrices=False)
    vectors = (basis @ left)[:, :width] * values[:width] ** SINGULAR_POWER
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    advance(1)
    normalised: np.ndarray = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)
    return normalised


def _ridge(design: scipy.sparse.csr_array, wanted: np.ndarray, importance: np.ndarray) -> np.ndarray:
    """Solve argmin_G Σ_w f_w ‖(A G)_w − v_w‖² + λ ‖G‖², [n-grams × d].

    The system (Aᵀ F A + λ I) G = Aᵀ F V is solved by conjugate gradients with a diagonal (Jacobi) preconditioner, for
    all columns at once; its matrix is never built. A few iterations suffice, because the ridge makes the system well
    conditioned.

    Args:
        design: A, the mean over each word's n-grams, [words × n-grams].
        wanted: V, [words × d].
        importance: f, [words].
    """
    weights = importance[:, None]
    back = scipy.sparse.csr_array(design.T)
    squared = design.copy()
    squared.data = squared.data**2
    diagonal = (squared.T @ importance + RIDGE)[:, None].astype(np.float32)
    solution = np.zeros((design.shape[1], wanted.shape[1]), np.float32)
    residual = back @ (weights * wanted)
    direction = residual / diagonal
    squared_residual = np.einsum("nd,nd->d", residual, direction)
    with track("training vectors of parts of words", RIDGE_ITERATIONS) as advance:
        for _ in range(RIDGE_ITERATIONS):
            image = back @ (weights * (design @ direction)) + RIDGE * direction
            step = squared_residual / np.maximum(np.einsum("nd,nd->d", direction, image), 1e-20)
            solution += step * direction
            residual -= step * image
            scaled = residual / diagonal
            next_squared = np.einsum("nd,nd->d", residual, scaled)
            direction = scaled + next_squared / np.maximum(squared_residual, 1e-20) * direction
            squared_residual = next_squared
            advance(1)
    return solution
