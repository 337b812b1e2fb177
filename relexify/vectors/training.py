"""Word vectors trained on the user's own text, with gensim's fastText."""

from __future__ import annotations

import logging
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from relexify.errors import EvidenceError
from relexify.progress import Advance, Progress, silent
from relexify.vectors.ngrams import Ngrams, ngram_buckets
from relexify.vectors.training_options import Settled, VectorTraining, check, settle
from relexify.vectors.word_vectors import WordVectors

__all__ = ["Sentences", "train_vectors"]

Sentences = Callable[[], Iterator[list[str]]]
"""Starts one pass over a text: lists of words, in order."""

_ATTEMPTS = 4  # the first, and three more with half the learning rate each
_LONGEST_SENTENCE = 10_000  # words; gensim silently drops what lies behind
# Room enough that an n-gram of no trained word hardly ever falls into the bucket of one that was trained; rows are
# kept for the buckets in use only, so room costs nothing.
_UNSHARED_BUCKETS = (1 << 31) - 1
_MOST_NGRAMS = 2_000_000  # rows; where a text has more, n-grams share them, as fastText's do

logger = logging.getLogger(__name__)


def train_vectors(
    sentences: Sentences, options: VectorTraining | None = None, *, progress: Progress = silent
) -> WordVectors:
    """Train fastText vectors on a text.

    Only the n-gram buckets that some word of the vocabulary uses are kept: what was never trained is no evidence.

    Args:
        sentences: Called once per pass; yields lists of words. Splitting text into words happens elsewhere.
        options: How to train; with one worker, the same text, options and seed give the same bytes.
        progress: Told of every sentence of every pass.

    Raises:
        InputError: An option is out of range.
        EvidenceError: No word occurs often enough, or training diverges at every learning rate tried.
    """
    options = options or VectorTraining()
    check(options)
    counts, lists = _count(sentences, progress)
    words = counts.total()
    settled = settle(options, words)
    text = _Text(sentences, lists, _vocabulary(counts, settled.minimum_count))
    counts.clear()  # the rare words are most of it
    for _ in range(_ATTEMPTS):
        vectors = _train(text, options, settled, progress)
        if _is_finite(vectors):
            return vectors
        logger.warning("training vectors diverged at learning rate %g", options.learning_rate)
        options = replace(options, learning_rate=options.learning_rate / 2, seed=options.seed + 1)
    raise EvidenceError(
        f"Training vectors on {words} words gave NaN or infinity {_ATTEMPTS} times, down to a learning rate of "
        f"{2 * options.learning_rate:g}: give more text, or a smaller learning rate"
    )


@dataclass(frozen=True)
class _Text:
    """A text to train on: its sentences, how many lists of words they make, and the words to train."""

    sentences: Sentences
    lists: int
    vocabulary: dict[str, int]


def _count(sentences: Sentences, progress: Progress) -> tuple[Counter[str], int]:
    """How often each word occurs, and how many lists of words there are."""
    counts: Counter[str] = Counter()
    lists = 0
    with progress("counting words", None) as advance:
        for sentence in _bounded(sentences()):
            counts.update(sentence)
            lists += 1
            advance(1)
    return counts, lists


def _bounded(sentences: Iterator[list[str]]) -> Iterator[list[str]]:
    """The same words in lists that gensim does not cut."""
    for sentence in sentences:
        for start in range(0, len(sentence), _LONGEST_SENTENCE):
            yield sentence[start : start + _LONGEST_SENTENCE]


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


def _train(text: _Text, options: VectorTraining, settled: Settled, progress: Progress) -> WordVectors:
    """Train once, whatever comes out."""
    words = list(text.vocabulary)
    counts = np.fromiter(text.vocabulary.values(), np.int64, len(words))
    indptr, ids, buckets = _hashed(words, options)
    known, rows = np.unique(ids, return_inverse=True)
    trained = _fit(text, options, settled, np.split(rows.astype(np.uint32), indptr[1:-1]), progress)
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


def _fit(text: _Text, options: VectorTraining, settled: Settled, ngrams: list[np.ndarray], progress: Progress) -> Any:
    """Run gensim, and return its `wv`.

    Args:
        text: What to train on.
        options: How to train.
        settled: The rest of how to train.
        ngrams: For each word of the vocabulary, the rows that stand for its n-grams.
        progress: Told of every sentence of every pass.
    """
    from gensim.models import FastText

    model = FastText(
        sg=int(settled.skipgram),
        vector_size=options.width,
        alpha=options.learning_rate,
        min_alpha=min(1e-4, options.learning_rate),
        window=options.window,
        negative=options.negative,
        sample=options.subsampling,
        min_n=options.shortest_ngram,
        max_n=options.longest_ngram,
        bucket=1 + max(int(rows.max(initial=0)) for rows in ngrams),
        min_count=1,  # the vocabulary is cut already,
        sorted_vocab=0,  # and sorted
        seed=options.seed,
        workers=options.workers,
    )
    model.build_vocab_from_freq(dict(text.vocabulary), corpus_count=text.lists)
    # gensim would hash n-grams into as many buckets as it has rows; ours have a row each, and no two share one.
    model.wv.buckets_word = ngrams
    with progress("training vectors", settled.epochs * text.lists) as advance, _without_empty_exceptions():
        passes = _Passes(text.sentences, advance)
        model.train(passes, total_examples=text.lists, epochs=settled.epochs)
    if passes.failure is not None:
        raise passes.failure
    return model.wv


class _Passes:
    """The text as gensim wants it: something to iterate over again and again.

    gensim iterates in a thread of its own and waits for ever if that thread fails, so a failure ends the pass, and is
    kept for later.
    """

    def __init__(self, sentences: Sentences, advance: Advance) -> None:
        self.failure: Exception | None = None
        self._sentences = sentences
        self._advance = advance

    def __iter__(self) -> Iterator[list[str]]:
        if self.failure is not None:
            return
        try:
            for sentence in _bounded(self._sentences()):
                yield sentence
                self._advance(1)
        except Exception as failure:
            self.failure = failure


@contextmanager
def _without_empty_exceptions() -> Iterator[None]:
    """Keep gensim's compiled loop from writing to standard error.

    Where a dot product is exactly -1, it takes that for the sign of an exception and reports one that is not there.
    """
    report = sys.unraisablehook

    def filtered(unraisable: sys.UnraisableHookArgs) -> Any:
        if unraisable.exc_value is not None or not str(unraisable.object).startswith("gensim."):
            report(unraisable)

    sys.unraisablehook = filtered
    try:
        yield
    finally:
        sys.unraisablehook = report


def _is_finite(vectors: WordVectors) -> bool:
    matrices = [vectors.matrix] if vectors.ngrams is None else [vectors.matrix, vectors.ngrams.matrix]
    return all(bool(np.isfinite(matrix).all()) for matrix in matrices)
