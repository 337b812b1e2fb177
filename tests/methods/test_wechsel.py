"""WECHSEL against its equations, written out as loops."""

from __future__ import annotations

import numpy as np
import pytest

from relexify.errors import EvidenceError, InputError
from relexify.evidence.vectors import (
    VectorTraining,
    WordVectors,
    subwords_from_ngrams,
    subwords_from_words,
    train_vectors,
)
from relexify.methods.wechsel import vector_neighbours, wechsel
from relexify.mixture import Origin
from relexify.tokens import vocabulary_of
from tests import pico

SOURCE_TOKENIZER = pico.byte_level()
LINES = pico.sentences(words=pico.foreign_words(), seed=3)
TARGET_TOKENIZER = pico.byte_level(LINES)


def vectors_of(lines):
    options = VectorTraining(width=24, epochs=2, minimum_count=1)
    return train_vectors(lambda: (line.split() for line in lines), options)


SOURCE, TARGET = vectors_of(pico.sentences()), vectors_of(LINES)


def cosine(left, right):
    return float(left @ right / (np.linalg.norm(left) * np.linalg.norm(right)))


@pytest.mark.parametrize(("neighbours", "temperature"), [(10, 0.1), (3, 0.5), (1, 1.0)])
def test_rows_equal_the_papers_equations(neighbours, temperature):
    mixture = wechsel(
        SOURCE_TOKENIZER, TARGET_TOKENIZER, SOURCE, TARGET, neighbours=neighbours, temperature=temperature
    )
    source, target = vocabulary_of(SOURCE_TOKENIZER), vocabulary_of(TARGET_TOKENIZER)
    u_s = [SOURCE.lookup([form.text.strip()])[0] for form in source.forms]
    checked = 0
    for x in range(300, len(target), 7):
        u_x = TARGET.lookup([target.forms[x].text.strip()])[0]
        if target.forms[x].is_byte or not u_x.any():
            continue
        open_rows = [form.is_byte for form in source.forms]
        similarity = [-9 if open_rows[y] or not u_y.any() else cosine(u_x, u_y) for y, u_y in enumerate(u_s)]
        order = np.argsort(-np.array(similarity), kind="stable")
        if similarity[order[neighbours - 1]] - similarity[order[neighbours]] < 1e-6:
            continue  # a tie at the border: either neighbour is right
        weights = {source.tokens[y]: np.exp(similarity[y] / temperature) for y in order[:neighbours]}
        total = sum(weights.values())
        for token, weight in mixture.sources(x):
            assert weight == pytest.approx(weights[token] / total, abs=1e-5)
        checked += 1
    assert checked > 5


def test_a_tiny_temperature_stays_finite():
    mixture = wechsel(SOURCE_TOKENIZER, TARGET_TOKENIZER, SOURCE, TARGET, temperature=1e-4)
    assert np.isfinite(mixture.weights.data).all()
    assert np.allclose(mixture.weights.sum(axis=1)[mixture.known], 1, atol=1e-5)


def test_special_tokens_are_copied_and_partial_characters_are_left_empty():
    mixture = wechsel(SOURCE_TOKENIZER, TARGET_TOKENIZER, SOURCE, TARGET)
    target = vocabulary_of(TARGET_TOKENIZER)
    assert mixture.sources(TARGET_TOKENIZER.eos_token_id) == [("<|endoftext|>", 1.0)]
    assert mixture.origin[TARGET_TOKENIZER.eos_token_id] == Origin.SPECIAL
    broken = [id for id, form in enumerate(target.forms) if form.is_byte]
    assert broken
    assert not mixture.known[broken].any()


def test_the_same_vectors_on_both_sides_find_the_same_token():
    mixture = wechsel(SOURCE_TOKENIZER, SOURCE_TOKENIZER, SOURCE, SOURCE, neighbours=1)
    source = vocabulary_of(SOURCE_TOKENIZER)
    for id in np.flatnonzero(mixture.known):
        ((token, weight),) = mixture.sources(int(id))
        assert weight == 1.0
        assert source.forms[source.ids[token]].text.strip() == source.forms[id].text.strip()


def test_subwords_from_words_equal_the_papers_sum():
    subwords = subwords_from_words(TARGET_TOKENIZER, TARGET)
    expected = {id: [np.zeros(24), 0] for id in range(len(TARGET_TOKENIZER))}
    for word, count, row in zip(TARGET.words, TARGET.counts, TARGET.lookup(TARGET.words), strict=True):
        for spelling in (word, f" {word}"):
            for id in set(TARGET_TOKENIZER(spelling, add_special_tokens=False).input_ids):
                expected[id][0] = expected[id][0] + count * row
                expected[id][1] += count
    for id, (total, weight) in expected.items():
        assert subwords.covered[id] == bool(weight)
        if weight:
            assert np.allclose(subwords.matrix[id], total / weight, atol=1e-5)


def test_words_that_are_unknown_or_spelled_like_special_tokens_give_these_no_vector():
    tokenizer = pico.wordpiece()
    vectors = WordVectors(["river", "日本", "[MASK]"], np.eye(3, dtype=np.float32), np.array([3, 2, 1]))
    subwords = subwords_from_words(tokenizer, vectors)
    assert not subwords.covered[tokenizer.all_special_ids].any()
    assert subwords.covered.any()


def test_the_most_frequent_words_alone_cover_fewer_tokens():
    some, every = (
        subwords_from_words(TARGET_TOKENIZER, TARGET, top_words=3),
        subwords_from_words(TARGET_TOKENIZER, TARGET),
    )
    assert some.covered.sum() < every.covered.sum()


def test_given_frequencies_replace_the_counts():
    only = TARGET.words[0]
    subwords = subwords_from_words(TARGET_TOKENIZER, TARGET, frequencies={only: 2.0})
    id = TARGET_TOKENIZER(f" {only}", add_special_tokens=False).input_ids[0]
    assert np.allclose(subwords.matrix[id], TARGET.lookup([only])[0], atol=1e-5)


def test_vectors_without_counts_weight_words_by_rank():
    uncounted = WordVectors(TARGET.words, TARGET.lookup(TARGET.words), None, None)
    by_rank = {word: 1 / rank for rank, word in enumerate(TARGET.words, 1)}
    expected = subwords_from_words(TARGET_TOKENIZER, TARGET, frequencies=by_rank)
    assert np.allclose(subwords_from_words(TARGET_TOKENIZER, uncounted).matrix, expected.matrix, atol=1e-5)


def test_tokens_are_looked_up_by_their_text():
    subwords = subwords_from_ngrams(TARGET_TOKENIZER, TARGET)
    target = vocabulary_of(TARGET_TOKENIZER)
    id = next(id for id, form in enumerate(target.forms) if form.starts_word and not form.text.isascii())
    assert np.allclose(subwords.matrix[id], TARGET.lookup([target.forms[id].text])[0])


def test_vectors_without_ngrams_use_words():
    plain = WordVectors(TARGET.words, TARGET.lookup(TARGET.words), TARGET.counts, None)
    assert wechsel(SOURCE_TOKENIZER, TARGET_TOKENIZER, SOURCE, plain).known.sum() > 50
    with pytest.raises(EvidenceError, match="no n-grams"):
        wechsel(SOURCE_TOKENIZER, TARGET_TOKENIZER, SOURCE, plain, subwords="ngrams")


def test_vectors_of_two_widths_are_rejected_with_both_numbers():
    narrow = subwords_from_ngrams(TARGET_TOKENIZER, TARGET.rotated(np.eye(24)[:, :20]))
    with pytest.raises(InputError, match="24 wide and target vectors 20"):
        vector_neighbours(subwords_from_ngrams(SOURCE_TOKENIZER, SOURCE), narrow)


def test_vectors_that_cover_no_token_are_rejected():
    nothing = WordVectors(["zzzz"], np.zeros((1, 24), np.float32), np.array([1]), None)
    with pytest.raises(EvidenceError, match="no token of the target vocabulary"):
        wechsel(SOURCE_TOKENIZER, pico.byte_level(["жж"] * 9, size=260), SOURCE, nothing)
