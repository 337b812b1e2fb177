from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from relexify.errors import EvidenceError, InputError
from relexify.evidence.vectors import (
    VectorTraining,
    WordVectors,
    gensim_training,
    ngram_buckets,
    sentences,
    train_vectors,
    training,
)
from relexify.evidence.vectors.options import ResolvedTraining, resolve_training
from relexify.progress import report_to

SMALL = VectorTraining(method="skipgram", width=12, epochs=2, subsampling=0)
WORDS = ["das", "haus", "häuser", "家", "gehen", "ging", "grün", "blau", "rot", "tür"]


def text(seed: int = 0, sentences: int = 120) -> list[list[str]]:
    """Sentences in which colours go with colours and the other words with each other."""
    generator = random.Random(seed)
    groups = [WORDS[:6], WORDS[6:]]
    return [[generator.choice(generator.choice(groups)) for _ in range(12)] for _ in range(sentences)]


TEXT = text()
TRAINED = train_vectors(lambda: iter(TEXT), SMALL)


def test_words_and_counts_are_sorted_by_frequency() -> None:
    counts = {word: sum(sentence.count(word) for sentence in TEXT) for word in WORDS}
    assert dict(zip(TRAINED.words, TRAINED.counts.tolist(), strict=True)) == counts
    assert sorted(TRAINED.counts.tolist(), reverse=True) == TRAINED.counts.tolist()


def test_only_buckets_that_words_use_are_kept() -> None:
    ngrams = TRAINED.ngrams
    used = np.unique(ngram_buckets(TRAINED.words, ngrams.minimum, ngrams.maximum, ngrams.buckets)[1])
    np.testing.assert_array_equal(ngrams.known, used)
    assert len(ngrams.matrix) == len(used) < ngrams.buckets
    assert not TRAINED.lookup(["zzzzz"]).any()


def test_lookup_gives_gensims_vectors() -> None:
    vocabulary = dict(zip(TRAINED.words, TRAINED.counts.tolist(), strict=True))
    resolved = resolve_training(SMALL, 1)
    indptr, ids, _ = training._hashed(TRAINED.words, SMALL)
    rows = np.split(np.searchsorted(TRAINED.ngrams.known, ids).astype(np.uint32), indptr[1:-1])
    theirs = gensim_training.run_gensim(
        gensim_training.TrainingText(lambda: iter(TEXT), 120, vocabulary), SMALL, resolved, rows
    )
    np.testing.assert_allclose(TRAINED.lookup(theirs.index_to_key), theirs.vectors, atol=1e-6)


@pytest.mark.parametrize("most", [4, 2_000_000])
def test_ngrams_share_rows_only_where_there_are_too_many(monkeypatch, most: int) -> None:
    monkeypatch.setattr(training, "_MOST_NGRAMS", most)
    vectors = train_vectors(lambda: iter(TEXT), SMALL)
    shared = len(vectors.ngrams.matrix) <= 4
    assert shared == (most == 4)
    assert bool(vectors.lookup(["zzzzz"]).any()) == shared


def fingerprint(vectors: WordVectors) -> bytes:
    return vectors.matrix.tobytes() + vectors.ngrams.matrix.tobytes() + " ".join(vectors.words).encode()


def test_the_same_seed_gives_the_same_bytes_and_another_seed_does_not() -> None:
    assert fingerprint(train_vectors(lambda: iter(TEXT), SMALL)) == fingerprint(TRAINED)
    assert fingerprint(train_vectors(lambda: iter(TEXT), replace(SMALL, seed=1))) != fingerprint(TRAINED)


def test_the_bytes_do_not_depend_on_pythons_hash_seed() -> None:
    script = (
        "import hashlib; from tests.evidence.vectors.test_vector_training import TRAINED, fingerprint; "
        "print(hashlib.sha256(fingerprint(TRAINED)).hexdigest())"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "1"}
    result = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == hashlib.sha256(fingerprint(TRAINED)).hexdigest()


def test_words_that_share_contexts_have_similar_vectors() -> None:
    options = VectorTraining(width=12, epochs=20, longest_ngram=0, subsampling=0)
    corpus = text(sentences=300)
    vectors = train_vectors(lambda: iter(corpus), options)
    rows = vectors.lookup(["rot", "blau", "haus"])
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    assert vectors.ngrams is None
    assert rows[0] @ rows[1] > rows[0] @ rows[2]


def test_a_list_longer_than_gensims_limit_is_not_cut(monkeypatch) -> None:
    monkeypatch.setattr(sentences, "_LONGEST_SENTENCE", 5)
    lengths = [len(sentence) for sentence in sentences.split_long_sentences(iter([["a"] * 12, [], ["b"] * 5]))]
    assert lengths == [5, 5, 2, 5]


@pytest.mark.parametrize(("words", "epochs", "minimum"), [(10, 5, 2), (7_000_000, 5, 3), (10**7, 3, 3), (10**9, 2, 5)])
def test_what_is_left_open_follows_from_the_size_of_the_text(words: int, epochs: int, minimum: int) -> None:
    assert resolve_training(VectorTraining(), words) == ResolvedTraining(epochs, minimum)
    assert resolve_training(VectorTraining(epochs=7, minimum_count=1), words) == ResolvedTraining(7, 1)


def test_too_little_text_is_reported_with_its_numbers() -> None:
    with pytest.raises(EvidenceError, match=r"occurs 5 times \(3 words, 2 different ones, the most frequent 2 times\)"):
        train_vectors(lambda: iter([["a", "b", "a"]]), VectorTraining(minimum_count=5))
    with pytest.raises(EvidenceError, match=r"occurs 2 times \(0 words, 0 different ones, the most frequent 0 times\)"):
        train_vectors(lambda: iter([]))


def test_training_that_diverges_at_every_learning_rate_is_reported(caplog, monkeypatch) -> None:
    def diverge(*arguments: Any) -> Any:
        trained = gensim_training.run_gensim(*arguments)
        trained.vectors_vocab[0] = np.nan  # what an overflow leaves, without the crash that it causes on some CPUs
        return trained

    monkeypatch.setattr(training, "run_gensim", diverge)
    with pytest.raises(
        EvidenceError, match=r"on 1440 words gave NaN or infinity 4 times, down to a learning rate of 0\.05"
    ):
        train_vectors(lambda: iter(TEXT), replace(SMALL, learning_rate=0.4))
    assert [record.getMessage() for record in caplog.records if record.name.startswith("relexify")] == [
        f"training vectors diverged at learning rate {rate}" for rate in ("0.4", "0.2", "0.1", "0.05")
    ]


def test_a_text_that_fails_on_a_later_pass_raises_instead_of_hanging() -> None:
    passes = []

    def sentences() -> Iterator[list[str]]:
        passes.append(1)
        yield from TEXT[:10]
        if len(passes) > 1:
            raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        train_vectors(sentences, SMALL)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("width", 0), ("epochs", 0), ("workers", 0), ("seed", -1), ("subsampling", 1)),
        *(("learning_rate", 0.0), ("learning_rate", 0.8)),
    ],
)
def test_options_out_of_range_are_rejected_by_name(name: str, value: float) -> None:
    with pytest.raises(InputError, match=f"with `{name}={value}` is not possible"):
        train_vectors(lambda: iter(TEXT), VectorTraining(**{name: value}))


def test_progress_hears_of_every_sentence_of_every_pass() -> None:
    heard: dict[str, list[int | None]] = {}

    @contextmanager
    def reporter(description: str, total: int | None):
        heard[description] = [total, 0]

        def advance(amount: int) -> None:
            heard[description][1] += amount

        yield advance

    with report_to(reporter):
        train_vectors(lambda: iter(TEXT), SMALL)
    assert heard == {"counting words": [None, 120], "training vectors": [240, 240]}


def test_only_real_exceptions_are_reported_while_gensim_trains(monkeypatch) -> None:
    reported = []
    monkeypatch.setattr(sys, "unraisablehook", reported.append)
    nothing, something = SimpleNamespace(exc_type=None), SimpleNamespace(exc_type=ValueError)

    def sentences() -> Iterator[list[str]]:
        for event in (nothing, something):
            sys.unraisablehook(event)
        return iter(TEXT)

    train_vectors(sentences, SMALL)
    assert something in reported
    in_training = [event for event in reported if event is nothing]
    sys.unraisablehook(nothing)
    passes = reported.count(something)
    assert len(in_training) < passes
    assert reported[-1] is nothing


def test_the_table_of_counts_is_bounded_and_frequent_words_are_counted_exactly(monkeypatch):
    largest = 0

    class Watched(Counter[str]):
        def update(self, *words: Any) -> None:
            nonlocal largest
            super().update(*words)
            largest = max(largest, len(self))

    monkeypatch.setattr(training, "_MOST_WORDS", 100)
    monkeypatch.setattr(training, "Counter", Watched)
    monkeypatch.setattr(sentences, "_BATCH_WORDS", 10)
    text = [["often", "also", *(f"rare{number}-{index}" for index in range(8))] for number in range(500)]
    counts, lists, words, _ = training._count(lambda: iter(text), window=5)
    assert (counts["often"], counts["also"], lists, words) == (500, 500, 500, 5_000)
    assert largest <= 108


def test_a_bounded_table_drops_more_frequent_words_if_dropping_the_rarest_is_not_enough(monkeypatch):
    monkeypatch.setattr(training, "_MOST_WORDS", 100)
    twice = [[f"word{number}"] for number in range(300) for _ in range(2)]
    counts, _, words, _ = training._count(lambda: iter([*twice, *[["often"] * 9] * 20]), window=5)
    assert words == 780
    assert counts["often"] == 180
    assert len(counts) <= 100


def test_the_vocabulary_is_bounded_by_frequency(monkeypatch):
    monkeypatch.setattr(training, "_LARGEST_VOCABULARY", 2)
    vectors = train_vectors(lambda: iter([["a", "b", "a", "c", "b", "a"]]), VectorTraining(minimum_count=1, width=2))
    assert vectors.words == ["a", "b"]
