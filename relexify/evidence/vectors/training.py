"""Word vectors trained on the user's own text, by counting or with fastText."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import replace

import numpy as np

from relexify.errors import EvidenceError
from relexify.evidence.vectors.counting import count_vectors
from relexify.evidence.vectors.gensim_training import Sentences, TrainingText, run_gensim, split_long_sentences
from relexify.evidence.vectors.ngram_fitting import fit_ngrams
from relexify.evidence.vectors.ngrams import Ngrams, ngram_buckets
from relexify.evidence.vectors.options import (
    ResolvedTraining,
    VectorTraining,
    resolve_training,
    validate_vector_training,
)
from relexify.evidence.vectors.word_vectors import WordVectors
from relexify.progress import track

__all__ = ["train_vectors"]

_ATTEMPTS = 4  # the first, and three more with half the learning rate each
# Room enough that an n-gram of no trained word hardly ever falls into the bucket of one that was trained; rows are
# kept for the buckets in use only, so room costs nothing.
_UNSHARED_BUCKETS = (1 << 31) - 1
_MOST_NGRAMS = 2_000_000  # rows; where a text has more, n-grams share them, as fastText's do

logger = logging.getLogger(__name__)


def train_vectors(sentences: Sentences, options: VectorTraining | None = None) -> WordVectors:
    """Train vectors, with counts and n-grams, on a text.

    Only the n-gram buckets that some word of the vocabulary uses are kept: what was never trained is no evidence.

    Args:
        sentences: Called once per pass; yields lists of words. Splitting text into words happens elsewhere.
        options: How to train; with one worker, the same text, options and seed give the same bytes.

    Raises:
        InputError: An option is out of range.
        EvidenceError: No word occurs often enough, or training diverges at every learning rate tried.
    """
    options = options or VectorTraining()
    validate_vector_training(options)
    counts, lists = _count(sentences)
    words = counts.total()
    settled = resolve_training(options, words)
    text = TrainingText(sentences, lists, _vocabulary(counts, settled.minimum_count))
    counts.clear()  # the rare words are most of it
    if options.method == "counts":
        return _counted(text, options)
    for _ in range(_ATTEMPTS):
        vectors = _train(text, options, settled)
        if _is_finite(vectors):
            return vectors
        logger.warning("training vectors diverged at learning rate %g", options.learning_rate)
        options = replace(options, learning_rate=options.learning_rate / 2, seed=options.seed + 1)
    raise EvidenceError(
        f"Training vectors on {words} words gave NaN or infinity {_ATTEMPTS} times, down to a learning rate of "
        f"{2 * options.learning_rate:g}: give more text, or a smaller learning rate"
    )


def _counted(text: TrainingText, options: VectorTraining) -> WordVectors:
    """Count neighbours, factor the counts, and fit n-grams to the result."""
    vectors = count_vectors(
        text.sentences,
        text.vocabulary,
        width=options.width,
        window=options.window,
        contexts=options.contexts,
        seed=options.seed,
        lists=text.lists,
    )
    words = list(text.vocabulary)
    counts = np.fromiter(text.vocabulary.values(), np.int64, len(words))
    if options.longest_ngram < options.shortest_ngram:
        return WordVectors(words, vectors, counts, None)
    _, _, buckets = _hashed(words, options)
    lengths = {"shortest": options.shortest_ngram, "longest": options.longest_ngram}
    return fit_ngrams(words, vectors, counts, buckets=buckets, **lengths)


def _count(sentences: Sentences) -> tuple[Counter[str], int]:
    """How often each word occurs, and how many lists of words there are."""
    counts: Counter[str] = Counter()
    lists = 0
    with track("counting words", None) as advance:
        for sentence in split_long_sentences(sentences()):
            counts.update(sentence)
            lists += 1
            advance(1)
    return counts, lists


def _vocabulary(counts: Counter[str], minimum: int) -> dict[str, int]:
    """The words that occur often enough, most frequent first, equals in order of their text."""
    frequent = [(word, count) for word, count in counts.items() if count >= minimum]
    if not frequent:
        most = max(counts.values(), default=0)
        raise EvidenceError(
            f"No word of the text occurs {minimum} times ({counts.total()} words, {len(counts)} different ones, the "
            f"most frequent {most} times): give more text, or a smaller minimum count"
        )
    return dict(sorted(frequent, key=lambda entry: (-entry[1], entry[0])))


def _train(text: TrainingText, options: VectorTraining, settled: ResolvedTraining) -> WordVectors:
    """Train once, whatever comes out."""
    words = list(text.vocabulary)
    counts = np.fromiter(text.vocabulary.values(), np.int64, len(words))
    indptr, ids, buckets = _hashed(words, options)
    known, rows = np.unique(ids, return_inverse=True)
    trained = run_gensim(text, options, settled, np.split(rows.astype(np.uint32), indptr[1:-1]))
    ngrams = Ngrams(trained.vectors_ngrams, options.shortest_ngram, options.longest_ngram, buckets, known)
    return WordVectors(words, trained.vectors_vocab, counts, ngrams if len(known) else None)


def _hashed(words: list[str], options: VectorTraining) -> tuple[np.ndarray, np.ndarray, int]:
    """The words' n-gram buckets, as `ngram_buckets` gives them, and how many buckets there are."""
    lengths = options.shortest_ngram, options.longest_ngram
    buckets = options.buckets or _UNSHARED_BUCKETS
    indptr, ids = ngram_buckets(words, *lengths, buckets)
    if options.buckets is None and len(np.unique(ids)) > _MOST_NGRAMS:
        buckets = _MOST_NGRAMS
        indptr, ids = ngram_buckets(words, *lengths, buckets)
    return indptr, ids, buckets


def _is_finite(vectors: WordVectors) -> bool:
    matrices = [vectors.matrix] if vectors.ngrams is None else [vectors.matrix, vectors.ngrams.matrix]
    return all(bool(np.isfinite(matrix).all()) for matrix in matrices)
