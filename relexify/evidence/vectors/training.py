"""Train word vectors on text, by counting or with fastText."""

from __future__ import annotations

import json
import logging
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np

from relexify.errors import EvidenceError
from relexify.evidence.vectors import counting
from relexify.evidence.vectors import sentences as batching
from relexify.evidence.vectors.counting import BlockEnds, count_vectors, fit_ngrams, shared_pairs
from relexify.evidence.vectors.gensim_training import TrainingText, run_gensim
from relexify.evidence.vectors.ngrams import Ngrams, ngram_buckets
from relexify.evidence.vectors.options import (
    ResolvedTraining,
    VectorTraining,
    resolve_training,
    validate_vector_training,
)
from relexify.evidence.vectors.sentences import (
    Sentences,
    SplitText,
    batches_of,
    map_sentences,
    of_lines,
    split_long_sentences,
)
from relexify.evidence.vectors.shares import SharedCount
from relexify.evidence.vectors.word_vectors import WordVectors
from relexify.progress import track
from relexify.storage.cache import entry_path
from relexify.storage.shards import Shards

__all__ = ["train_vectors", "vector_shards"]

_ATTEMPTS = 4  # each with half the learning rate of the previous one
# Enough buckets that an untrained n-gram hardly ever shares the bucket of a trained one. Rows are kept only for the
# buckets in use, so this costs no memory.
_UNSHARED_BUCKETS = (1 << 31) - 1
_MOST_NGRAMS = 2_000_000  # rows; if a text has more n-grams, they share rows, as in fastText
_MOST_WORDS = 4_000_000  # in the table of counts, about 0.6 GB; 60 MB of text have at most 1.5 million
_LARGEST_VOCABULARY = 1_000_000  # words with a vector
_SHARD = 16  # batches of text in a shard, the unit of counting that hosts divide among themselves

_WordCounts = tuple[Mapping[str, int], int, list[int]]
"""The counts of a batch: words with their counts, the number of lists of words, and the length of each sentence."""

logger = logging.getLogger(__name__)


def train_vectors(sentences: Sentences, options: VectorTraining | None = None) -> WordVectors:
    """Train vectors, with counts and n-grams, on a text.

    Only n-gram buckets that are used by a word of the vocabulary are kept, because untrained rows are not evidence.

    Args:
        sentences: Starts one pass over the text; yields lists of words. Several processes count the words of a
            `SplitText`; their number does not change the result. If it has shards, this host counts its share, and
            reads the counts of other hosts from the shards.
        options: Options of the training; with one worker, the same text, options and seed give the same bytes.

    Raises:
        InputError: An option is out of range.
        EvidenceError: No word occurs often enough, or training diverges at all learning rates that were tried.
        ShardsLost: Another process has removed the shards, or they cannot be written.
    """
    options = options or VectorTraining()
    validate_vector_training(options)
    counts, lists, words, ends = _count(sentences, options.window)
    resolved = resolve_training(options, words)
    text = TrainingText(sentences, lists, _vocabulary(counts, resolved.minimum_count))
    counts.clear()  # frees memory, because most of the counts are of rare words
    if options.method == "counts":
        return _count_and_fit(text, options, ends)
    for _ in range(_ATTEMPTS):
        vectors = _train(text, options, resolved)
        matrices = [vectors.matrix] if vectors.ngrams is None else [vectors.matrix, vectors.ngrams.matrix]
        if all(np.isfinite(matrix).all() for matrix in matrices):
            return vectors
        logger.warning("training vectors diverged at learning rate %g", options.learning_rate)
        options = replace(options, learning_rate=options.learning_rate / 2, seed=options.seed + 1)
    raise EvidenceError(
        f"Training vectors on {words} words gave NaN or infinity {_ATTEMPTS} times, down to a learning rate of "
        f"{2 * options.learning_rate:g}: give more text, or a smaller learning rate"
    )


def vector_shards(kind: str, key: Mapping[str, object]) -> Shards:
    """Return the shards in which hosts exchange the counts of a text; arguments identify the vectors in the cache.

    Args:
        kind: As for `cached`.
        key: As for `cached`.
    """
    return Shards(
        entry_path(f"{kind}-shards", {**key, "shard": _SHARD, "batch": batching.BATCH, "block": counting.BLOCK})
    )


def _count_and_fit(text: TrainingText, options: VectorTraining, ends: Sequence[int]) -> WordVectors:
    """Count neighbours, factor the counts, and fit n-grams to the result.

    Args:
        text: The text.
        options: Options of the training.
        ends: The ends of the blocks that several hosts divide among themselves.
    """
    sentences, window, contexts = text.sentences, options.window, options.contexts
    blocks = None
    if isinstance(sentences, SplitText) and sentences.shards is not None:
        shared = shared_pairs(sentences, sentences.shards, text.vocabulary, ends, window=window, contexts=contexts)
        shared.count_share()
        blocks = shared.all_counts()
    vectors = count_vectors(
        sentences,
        text.vocabulary,
        width=options.width,
        window=window,
        contexts=contexts,
        seed=options.seed,
        lists=text.lists,
        blocks=blocks,
    )
    words = list(text.vocabulary)
    counts = np.fromiter(text.vocabulary.values(), np.int64, len(words))
    if options.longest_ngram < options.shortest_ngram:
        return WordVectors(words, vectors, counts, None)
    _, _, buckets = _hashed(words, options)
    return fit_ngrams(
        words,
        vectors,
        counts,
        shortest=options.shortest_ngram,
        longest=options.longest_ngram,
        buckets=buckets,
    )


def _count(sentences: Sentences, window: int) -> tuple[Counter[str], int, int, list[int]]:
    """Return the count of each word, the number of lists of words, the number of words, and the ends of blocks.

    Memory is bounded: when the table is full, its rarest words are dropped. In a very large text, the counts of rare
    words are therefore too low.
    """
    counts: Counter[str] = Counter()
    blocks = BlockEnds(window)
    lists = words = 0
    rare = 1  # words with at most this count are dropped
    with track("counting words", None) as advance:
        for in_batch, batch_lists, lengths in _counted_batches(sentences):
            counts.update(in_batch)
            lists, words = lists + batch_lists, words + sum(lengths)
            while len(counts) > _MOST_WORDS:
                counts = Counter({word: count for word, count in counts.items() if count > rare})
                rare += len(counts) > _MOST_WORDS // 2
            blocks.add(lengths)
            advance(batch_lists)
    blocks.finish()
    return counts, lists, words, blocks.ends


def _counted_batches(sentences: Sentences) -> Iterator[_WordCounts]:
    """Yield the counts of all batches of a text, in order; other hosts may have counted some of them."""
    if not isinstance(sentences, SplitText) or sentences.shards is None:
        return map_sentences(_count_batch, sentences)
    lines = sentences.lines
    shared = SharedCount(
        "words",
        sentences.shards,
        batches=lambda: ((number // _SHARD, batch) for number, batch in enumerate(batches_of(lines))),
        count=of_lines(sentences, _count_batch),
        combine=list,
        save=lambda batches: zlib.compress(json.dumps(batches).encode(), level=1),
        load=lambda content: json.loads(zlib.decompress(content)),
    )
    shared.count_share()
    return chain.from_iterable(shared.all_counts())


def _count_batch(sentences: list[list[str]]) -> _WordCounts:
    """Return the counts of some sentences."""
    counts: Counter[str] = Counter()
    lists = 0
    for sentence in split_long_sentences(sentences):
        counts.update(sentence)
        lists += 1
    return counts, lists, [len(sentence) for sentence in sentences]


def _vocabulary(counts: Counter[str], minimum: int) -> dict[str, int]:
    """Return the words that occur often enough, at most a million, most frequent first, ties in alphabetical order."""
    frequent = [(word, count) for word, count in counts.items() if count >= minimum]
    if not frequent:
        most = max(counts.values(), default=0)
        raise EvidenceError(
            f"No word of the text occurs {minimum} times ({counts.total()} words, {len(counts)} different ones, the "
            f"most frequent {most} times): give more text, or a smaller minimum count"
        )
    return dict(sorted(frequent, key=lambda entry: (-entry[1], entry[0]))[:_LARGEST_VOCABULARY])


def _train(text: TrainingText, options: VectorTraining, resolved: ResolvedTraining) -> WordVectors:
    """Train fastText once; the result may contain NaN."""
    words = list(text.vocabulary)
    counts = np.fromiter(text.vocabulary.values(), np.int64, len(words))
    indptr, ids, buckets = _hashed(words, options)
    known, rows = np.unique(ids, return_inverse=True)
    trained = run_gensim(text, options, resolved, np.split(rows.astype(np.uint32), indptr[1:-1]))
    ngrams = Ngrams(trained.vectors_ngrams, options.shortest_ngram, options.longest_ngram, buckets, known)
    return WordVectors(words, trained.vectors_vocab, counts, ngrams if len(known) else None)


def _hashed(words: list[str], options: VectorTraining) -> tuple[np.ndarray, np.ndarray, int]:
    """Return the words' n-gram buckets as `ngram_buckets` does, and the number of buckets."""
    shortest, longest = options.shortest_ngram, options.longest_ngram
    buckets = options.buckets or _UNSHARED_BUCKETS
    indptr, ids = ngram_buckets(words, shortest, longest, buckets)
    if options.buckets is None and len(np.unique(ids)) > _MOST_NGRAMS:
        buckets = _MOST_NGRAMS
        indptr, ids = ngram_buckets(words, shortest, longest, buckets)
    return indptr, ids, buckets
