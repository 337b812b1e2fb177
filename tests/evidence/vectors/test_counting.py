"""Vectors by counting, against the definitions written out as loops."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest

from relexify import processes
from relexify.evidence.alignment import align
from relexify.evidence.vectors import EachLine, SplitText, VectorTraining, counting, sentences, train_vectors
from relexify.evidence.vectors.counting import (
    _add_up,
    _factored,
    _pairs,
    _positive_information,
    _word_rows,
    count_vectors,
    fit_ngrams,
)
from relexify.text import invent, split_words
from tests import pico
from tests.processes import count_started

TEXT = [line.lower().replace(",", " ,").split() for line in pico.sentences(300)]
WORDS = {word: 1 for line in TEXT for word in line}
OPTIONS = VectorTraining(width=16, minimum_count=1)


def rows():
    return {word: row for row, word in enumerate(WORDS)}


def counts(window=3, contexts=10):
    blocks = _word_rows(lambda: TEXT, rows(), window, lambda amount: None)
    return cooccurrences(blocks, len(WORDS), contexts, window)


def cooccurrences(blocks, words, contexts, window):
    shape = words, contexts
    return _add_up((_pairs(block, shape, window) for block in blocks), shape)


def test_cooccurrences_equal_a_loop_over_the_text():
    expected = defaultdict(float)
    for line in TEXT:
        for i, word in enumerate(line):
            for j in range(max(0, i - 3), min(len(line), i + 4)):
                if i != j and rows()[line[j]] < 10:
                    expected[rows()[word], rows()[line[j]]] += 1 / abs(i - j)
    dense = counts().toarray()
    assert np.count_nonzero(dense) == len(expected)
    assert all(dense[index] == pytest.approx(value, rel=1e-5) for index, value in expected.items())


def test_blocks_do_not_change_the_counts(monkeypatch):
    whole = counts().toarray()
    monkeypatch.setattr(counting, "BLOCK", 50)
    assert np.allclose(counts().toarray(), whole, rtol=1e-5)


def test_information_equals_its_definition():
    dense = counts().toarray().astype(float)
    smoothed = dense.sum(axis=0) ** 0.75
    information = _positive_information(counts()).toarray()
    for word, context in ((3, 2), (5, 5), (0, 9)):
        if dense[word, context]:
            value = math.log(dense[word, context] * smoothed.sum() / (dense[word].sum() * smoothed[context]))
            assert information[word, context] == pytest.approx(max(0, value), abs=1e-4)


def test_the_factors_span_what_an_exact_decomposition_spans():
    matrix = _positive_information(counts(contexts=20))
    vectors = _factored(matrix, 5, 0, lambda amount: None)
    left, values, _ = np.linalg.svd(matrix.toarray())
    exact = left[:, :5] * values[:5] ** 0.5
    exact /= np.linalg.norm(exact, axis=1, keepdims=True)
    assert np.allclose(vectors @ vectors.T, exact @ exact.T, atol=0.02)


def test_the_same_text_and_seed_give_the_same_bytes():
    first, second = (train_vectors(lambda: iter(TEXT), OPTIONS) for _ in range(2))
    assert np.array_equal(first.matrix, second.matrix)
    assert np.array_equal(first.ngrams.matrix, second.ngrams.matrix)


def test_known_words_are_looked_up_as_the_vectors_the_ngrams_were_fitted_to():
    vectors = np.random.default_rng(0).standard_normal((len(WORDS), 8)).astype(np.float32)
    made = fit_ngrams(list(WORDS), vectors, np.ones(len(WORDS)), shortest=3, longest=5, buckets=1000)
    assert np.allclose(made.lookup(list(WORDS)), vectors, atol=1e-4)


def test_an_unseen_form_is_near_the_words_that_share_its_ngrams():
    stems = ["rivermouth", "riverbank", "riverbed", "teachable", "teachings", "teacherly"]
    vectors = np.repeat(np.eye(2, dtype=np.float32), 3, axis=0)
    made = fit_ngrams(stems, vectors, np.ones(6), shortest=3, longest=6, buckets=100_000)
    river, teach = made.lookup(["rivers", "teach"])
    assert river[0] > 2 * abs(river[1])
    assert teach[1] > 2 * abs(teach[0])


def test_what_shares_no_ngram_with_any_word_has_no_vector():
    made = train_vectors(lambda: iter(TEXT), OPTIONS)
    assert not made.lookup(["жжжж"]).any()


def test_words_only_leaves_the_ngrams_out():
    made = train_vectors(lambda: iter(TEXT), replace(OPTIONS, longest_ngram=0))
    assert made.ngrams is None
    assert np.allclose(np.linalg.norm(made.matrix, axis=1), 1, atol=1e-4)


def test_a_vocabulary_smaller_than_the_width_still_has_that_width():
    assert count_vectors(
        lambda: iter([["a", "b", "a", "c"]] * 9), {"a": 2, "b": 1, "c": 1}, width=16, window=2, contexts=99, seed=0
    ).shape == (3, 16)


def test_an_invented_language_is_translated_back_through_its_vectors():
    from relexify.evidence.lexicon import BilingualLexicon
    from relexify.text import english_from_python, split_words

    lines = [split_words(line.lower()) for line in english_from_python(400_000)]
    language = invent([word for line in lines for word in line], seed=1)
    half = len(lines) // 2
    foreign = [[language.translate(word) for word in line] for line in lines[half:]]
    source = train_vectors(lambda: iter(lines[:half]), VectorTraining(width=60))
    target = train_vectors(lambda: iter(foreign), VectorTraining(width=60))
    rotation = align(source, target, BilingualLexicon(tuple(language.pairs())))
    # The text is that of the standard library, which differs between versions of Python.
    assert rotation.quality.precision > 0.02, "chance is less than 0.001"


def test_the_number_of_pairs_is_bounded_and_frequent_ones_are_counted_exactly(monkeypatch):
    generator = np.random.default_rng(0)
    blocks = [np.concatenate([[0, 1] * 50, generator.integers(2, 200, 400)]).astype(np.int32) for _ in range(20)]
    exact = cooccurrences(iter(blocks), 200, 200, 2)
    monkeypatch.setattr(counting, "MOST_PAIRS", 4_000)
    bounded = cooccurrences(iter(blocks), 200, 200, 2)
    assert bounded.nnz <= 4_000 < exact.nnz
    assert bounded[0, 1] == pytest.approx(exact[0, 1]) == pytest.approx(20 * 99)


def test_blocks_end_with_the_first_sentence_beyond_their_size(monkeypatch):
    monkeypatch.setattr(counting, "BLOCK", 50)
    monkeypatch.setattr(sentences, "_BATCH_WORDS", 30)
    expected, block = [], []
    for line in TEXT:
        block += [rows()[word] for word in line] + [-1] * 3
        if len(block) > 50:
            expected.append(block)
            block = []
    expected += [block] if block else []
    found = _word_rows(lambda: TEXT, rows(), 3, lambda amount: None)
    assert [each.tolist() for each in found] == expected


@pytest.mark.parametrize("number", ["2", "3"])
def test_the_number_of_processes_does_not_change_the_vectors(monkeypatch, number):
    text = SplitText([" ".join(line) for line in TEXT], EachLine(split_words))
    monkeypatch.setattr(counting, "BLOCK", 500)
    monkeypatch.setattr(sentences, "BATCH", 1_000)
    monkeypatch.setenv(processes.PROCESSES, "1")
    alone = train_vectors(text, OPTIONS)
    monkeypatch.setenv(processes.PROCESSES, number)
    started = count_started(monkeypatch)
    together = train_vectors(text, OPTIONS)
    assert len(started) == 2 * int(number), "words and neighbours were not counted by other processes"
    assert together.words == alone.words
    for name in ("matrix", "counts"):
        assert getattr(together, name).tobytes() == getattr(alone, name).tobytes()
    assert together.ngrams.matrix.tobytes() == alone.ngrams.matrix.tobytes()
