"""RAMEN, trans-tokens and FOCUS against counts by hand and the papers' equations."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from relexify.errors import EvidenceError, InputError
from relexify.evidence.vectors import SubwordVectors, WordVectors, subwords_from_words
from relexify.methods.blend import blended
from relexify.methods.focus import focus
from relexify.methods.fvt import pieces
from relexify.methods.parts.aligned import aligned_tokens
from relexify.methods.parts.copying import neutral, shared, special
from relexify.methods.ramen import ramen, ramen_random, ramen_vectors
from relexify.methods.trans_tokens import trans_tokens
from relexify.mixture import Fallback, Origin, first_of
from relexify.tokens import vocabulary_of
from tests import pico
from tests.mixture.definitions import sparsemax

SOURCE_TOKENIZER = pico.byte_level()
TARGET_TOKENIZER = pico.byte_level(pico.sentences(words=pico.foreign_words(), seed=3))
SOURCE, TARGET = vocabulary_of(SOURCE_TOKENIZER), vocabulary_of(TARGET_TOKENIZER)
WORDS = [id for id, form in enumerate(TARGET.forms) if form.starts_word and len(form.text) > 3]
EOS = TARGET_TOKENIZER.eos_token_id


def counts(entries):
    rows, columns, values = zip(*entries, strict=True)
    return csr_array((np.array(values, float), (rows, columns)), shape=(len(TARGET), len(SOURCE)))


def subwords(vocabulary, seed, *, width=6, uncovered=()):
    matrix = np.random.default_rng(seed).standard_normal((len(vocabulary), width)).astype(np.float32)
    matrix[[form.is_special for form in vocabulary.forms]] = 0
    matrix[list(uncovered)] = 0
    return SubwordVectors(vocabulary, matrix, matrix.any(axis=1))


def test_rows_are_translation_probabilities_counted_by_hand():
    word, other = WORDS[:2]
    mixture = ramen(
        SOURCE_TOKENIZER, TARGET_TOKENIZER, counts([(word, 300, 6), (word, 310, 3), (word, 320, 1), (other, 330, 2)])
    )
    expected = {SOURCE.tokens[300]: 0.6, SOURCE.tokens[310]: 0.3, SOURCE.tokens[320]: 0.1}
    assert dict(mixture.sources(word)) == pytest.approx(expected)
    assert mixture.sources(other) == [(SOURCE.tokens[330], 1.0)]
    assert mixture.origin[word] == Origin.MIXED
    assert not mixture.known[WORDS[2]]
    assert mixture.origin[WORDS[2]] == Origin.NONE
    assert mixture.method == "ramen"


def test_smoothing_is_added_to_pairs_that_were_seen_and_not_to_others():
    word = WORDS[0]
    mixture = ramen(SOURCE_TOKENIZER, TARGET_TOKENIZER, counts([(word, 300, 3), (word, 310, 1)]), smoothing=1)
    assert dict(mixture.sources(word)) == pytest.approx({SOURCE.tokens[300]: 4 / 6, SOURCE.tokens[310]: 2 / 6})


def test_rare_pairs_are_left_out_before_probabilities_are_computed():
    word, other = WORDS[:2]
    mixture = ramen(
        SOURCE_TOKENIZER, TARGET_TOKENIZER, counts([(word, 300, 3), (word, 310, 1), (other, 300, 1)]), min_count=2
    )
    assert mixture.sources(word) == [(SOURCE.tokens[300], 1.0)]
    assert not mixture.known[other]


def test_special_tokens_are_copied_by_role_whatever_the_text_spells():
    mixture = ramen(
        SOURCE_TOKENIZER,
        TARGET_TOKENIZER,
        counts([(EOS, 300, 9), (WORDS[0], SOURCE_TOKENIZER.eos_token_id, 5), (WORDS[0], 300, 5)]),
    )
    assert mixture.sources(EOS) == [("<|endoftext|>", 1.0)]
    assert mixture.sources(WORDS[0]) == [(SOURCE.tokens[300], 1.0)]


def test_an_override_wins_over_the_evidence():
    word = TARGET.forms[WORDS[0]].text
    mixture = ramen(SOURCE_TOKENIZER, TARGET_TOKENIZER, counts([(WORDS[0], 300, 9)]), overrides={word: "river"})
    assert mixture.sources(WORDS[0]) == [("Ġriver", 1.0)]


def test_counts_without_evidence_are_rejected():
    with pytest.raises(EvidenceError, match="no two tokens were aligned 5 times"):
        ramen(SOURCE_TOKENIZER, TARGET_TOKENIZER, counts([(WORDS[0], 300, 4)]), min_count=5)
    with pytest.raises(InputError, match="smoothing = -1"):
        ramen(SOURCE_TOKENIZER, TARGET_TOKENIZER, counts([(WORDS[0], 300, 4)]), smoothing=-1)


@pytest.mark.parametrize("make", ["bitext", "vectors", "random"])
def test_all_of_ramen_falls_back_on_a_narrow_normal(make):
    if make == "bitext":
        mixture = ramen(SOURCE_TOKENIZER, TARGET_TOKENIZER, counts([(WORDS[0], 300, 1)]))
    elif make == "vectors":
        mixture = ramen_vectors(subwords(SOURCE, 0), subwords(TARGET, 1))
    else:
        mixture = ramen_random(SOURCE_TOKENIZER, TARGET_TOKENIZER)
        assert not mixture.known.any()
    assert mixture.fallback is Fallback.NARROW


def test_vectors_give_sparsemax_over_the_whole_covered_vocabulary():
    unknown = WORDS[3]
    source, target = subwords(SOURCE, 0, uncovered=(300, 301)), subwords(TARGET, 1, uncovered=(unknown,))
    mixture = ramen_vectors(source, target)
    columns = np.flatnonzero(source.covered)
    assert not {300, 301, SOURCE_TOKENIZER.eos_token_id} & set(columns)
    dense = mixture.weights.toarray()
    for row in [*WORDS[:3], *WORDS[4:12]]:
        expected = np.zeros(len(SOURCE))
        expected[columns] = sparsemax((source.matrix[columns] @ target.matrix[row]).tolist())
        assert np.allclose(dense[row], expected, atol=1e-6)
    assert not mixture.known[unknown]
    assert mixture.sources(EOS) == [("<|endoftext|>", 1.0)]


def test_only_the_most_frequent_words_contribute_to_subword_vectors_whatever_their_order():
    words, matrix = ["river", "house", "door"], np.eye(3, dtype=np.float32)
    vectors = WordVectors(words, matrix, None, None)
    frequencies = {"river": 1.0, "house": 5.0, "door": 4.0}
    some = subwords_from_words(SOURCE_TOKENIZER, vectors, frequencies=frequencies, top_words=2)
    without = subwords_from_words(
        SOURCE_TOKENIZER, WordVectors(words[1:], matrix[1:], None, None), frequencies=frequencies
    )
    assert np.allclose(some.matrix, without.matrix)
    assert not some.covered[SOURCE_TOKENIZER.convert_tokens_to_ids("Ġriver")]


def test_words_of_unit_length_count_by_frequency_alone():
    vectors = WordVectors(["river"], np.array([[3, 4]], dtype=np.float32), None, None)
    made = subwords_from_words(SOURCE_TOKENIZER, vectors, frequencies={"river": 7.0}, unit_length=True)
    assert np.allclose(made.matrix[SOURCE_TOKENIZER.convert_tokens_to_ids("Ġriver")], [0.6, 0.8])


def test_trans_tokens_copy_what_needs_no_translation_and_count_the_rest():
    both = next(
        id
        for id in np.flatnonzero(
            shared(SOURCE_TOKENIZER, TARGET_TOKENIZER).known & ~neutral(SOURCE_TOKENIZER, TARGET_TOKENIZER).known
        )
        if TARGET.forms[id].text.isalpha()
    )
    comma = TARGET_TOKENIZER.convert_tokens_to_ids(",")
    mixture = trans_tokens(
        SOURCE_TOKENIZER, TARGET_TOKENIZER, counts([(WORDS[0], 300, 3), (WORDS[0], 310, 1), (comma, 300, 50)])
    )
    assert dict(mixture.sources(WORDS[0])) == pytest.approx({SOURCE.tokens[300]: 0.75, SOURCE.tokens[310]: 0.25})
    assert mixture.sources(comma) == [(",", 1.0)]
    assert mixture.sources(both) == [(SOURCE.tokens[SOURCE.same(TARGET, both)], 1.0)]
    aligned = trans_tokens(SOURCE_TOKENIZER, TARGET_TOKENIZER, counts([(both, 300, 3)]))
    assert aligned.sources(both) == [(SOURCE.tokens[300], 1.0)], "evidence wins over the same spelling"
    assert mixture.fallback is Fallback.SOURCE_ROWS


def test_focus_copies_shared_tokens_and_mixes_the_others_from_them_alone():
    target = subwords(TARGET, 1, uncovered=(WORDS[3],))
    mixture, copied = focus(SOURCE_TOKENIZER, target), shared(SOURCE_TOKENIZER, TARGET_TOKENIZER)
    anchors = np.flatnonzero(copied.known & target.covered)
    unit = target.matrix / np.maximum(np.linalg.norm(target.matrix, axis=1, keepdims=True), 1e-9)
    dense = mixture.weights.toarray()
    for row in [word for word in WORDS if not copied.known[word]][:6]:
        expected = np.zeros(len(SOURCE))
        if target.covered[row]:
            weights = sparsemax((unit[anchors] @ unit[row]).tolist())
            for anchor, weight in zip(anchors, weights, strict=True):
                expected[SOURCE.same(TARGET, anchor)] += weight
        assert np.allclose(dense[row], expected, atol=1e-6)
    known = copied.known & ~special(SOURCE_TOKENIZER, TARGET_TOKENIZER).known
    assert np.array_equal(dense[known], copied.weights.toarray()[known])


def test_focus_without_a_shared_token_is_rejected():
    nothing = SubwordVectors(TARGET, np.zeros((len(TARGET), 3), np.float32), np.zeros(len(TARGET), bool))
    with pytest.raises(EvidenceError, match="share no token"):
        focus(SOURCE_TOKENIZER, nothing)


def test_parallel_text_is_a_known_meaning_in_a_blend():
    aligned = aligned_tokens(SOURCE_TOKENIZER, TARGET_TOKENIZER, counts([(word, 300, 1) for word in WORDS]))
    mixture = blended(SOURCE_TOKENIZER, TARGET_TOKENIZER, known=aligned)
    own = pieces(SOURCE_TOKENIZER, TARGET_TOKENIZER)
    expected = (3 * aligned.weights + own.weights).toarray() / 4
    untouched = first_of(special(SOURCE_TOKENIZER, TARGET_TOKENIZER), neutral(SOURCE_TOKENIZER, TARGET_TOKENIZER)).known
    rows = [word for word in WORDS if not untouched[word]]
    assert np.allclose(mixture.weights.toarray()[rows], expected[rows], atol=1e-6)
    assert mixture.fallback is Fallback.SOURCE_ROWS
