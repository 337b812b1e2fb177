"""The default method: what it makes of the evidence that there is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from relexify.errors import EvidenceError
from relexify.evidence.alignment import Rotation
from relexify.evidence.evidence import Evidence
from relexify.evidence.lexicon import BilingualLexicon
from relexify.evidence.lexicon.retrieval import Quality
from relexify.evidence.vectors import SubwordVectors, VectorTraining
from relexify.methods.fvt import fvt, pieces
from relexify.methods.inputs import Inputs, TokenSpace
from relexify.methods.registry import METHODS
from relexify.methods.translated_neighbours import translated_neighbours
from relexify.methods.translations import translations
from relexify.methods.wechsel import neighbours_in_space
from relexify.mixture import softmax_weights
from relexify.text import Corpus
from relexify.tokens import vocabulary_of
from tests import pico

SOURCE, TARGET = pico.byte_level(), pico.byte_level(pico.sentences(words=pico.foreign_words(), seed=3))
SOURCE_VOCABULARY, VOCABULARY = vocabulary_of(SOURCE), vocabulary_of(TARGET)
WORDS = [id for id, form in enumerate(VOCABULARY.forms) if form.starts_word and len(form.text) > 4]
KNOWN, UNKNOWN = WORDS[:2], WORDS[2]
LEXICON = BilingualLexicon(
    (("river", VOCABULARY.forms[KNOWN[0]].text), ("water", VOCABULARY.forms[KNOWN[1]].text)), name="two words"
)
TRANSLATED = translations(SOURCE, TARGET, LEXICON)


def vectors(tokenizer, rows: dict[int, list[float]]) -> SubwordVectors:
    """Vectors of a few tokens; the others are not covered."""
    matrix = np.zeros((len(vocabulary_of(tokenizer)), 2), np.float32)
    for id, row in rows.items():
        matrix[id] = row
    return SubwordVectors(vocabulary_of(tokenizer), matrix, np.any(matrix != 0, axis=1))


TOKENS = vectors(TARGET, {KNOWN[0]: [1, 0], KNOWN[1]: [0, 1], UNKNOWN: [0.8, 0.6]})
SOURCE_WORD = SOURCE.convert_tokens_to_ids("Ġteacher")


def space(precision: float | None) -> TokenSpace:
    quality = None if precision is None else Quality(precision, precision, words=100, candidates=100)
    rotation = Rotation(np.eye(2), pairs_used=2, coverage=1.0, quality=quality)
    return TokenSpace(vectors(SOURCE, {SOURCE_WORD: [1, 1]}), TOKENS, rotation)


def inputs(lexicon: BilingualLexicon | None, known_space: TokenSpace | EvidenceError) -> Inputs:
    """Inputs whose vectors are already known, or cannot be aligned."""

    class Known(Inputs):
        def token_space(self, *arguments: object, **options: object) -> TokenSpace:
            if isinstance(known_space, EvidenceError):
                raise known_space
            return known_space

    evidence = Evidence(Corpus.from_lines([]), Corpus.from_lines([]), lexicon=lexicon)
    return Known(SOURCE, TARGET, evidence, read_embedding=lambda: np.zeros((len(SOURCE), 2)), vectors=VectorTraining())


def built(lexicon: BilingualLexicon | None, known_space: TokenSpace | EvidenceError) -> np.ndarray:
    """Return the weights of the default method, dense."""
    weights: np.ndarray = METHODS["blend"].initialise(inputs(lexicon, known_space)).mixture.weights.toarray()
    return weights


def test_a_token_without_a_translation_takes_those_of_its_neighbours_by_similarity():
    mixture = translated_neighbours(SOURCE_VOCABULARY, TOKENS, TRANSLATED, temperature=0.1)
    near, far = softmax_weights(np.array([[0.8, 0.6]]), 0.1)[0]
    assert dict(mixture.sources(UNKNOWN)) == pytest.approx({"Ġriver": near, "Ġwater": far}, abs=1e-6)


def test_tokens_with_a_translation_and_tokens_without_a_vector_have_no_translated_neighbours():
    mixture = translated_neighbours(SOURCE_VOCABULARY, TOKENS, TRANSLATED)
    assert np.flatnonzero(mixture.known).tolist() == [UNKNOWN]


def test_digits_are_no_neighbours_even_if_the_dictionary_lists_them():
    digit = TARGET.convert_tokens_to_ids("7")
    listed = translations(SOURCE, TARGET, replace(LEXICON, pairs=(*LEXICON.pairs, ("teacher", "7"))))
    assert listed.known[digit]
    nearest = replace(TOKENS, matrix=TOKENS.matrix.copy(), covered=TOKENS.covered.copy())
    nearest.matrix[digit], nearest.covered[digit] = TOKENS.matrix[UNKNOWN], True
    mixture = translated_neighbours(SOURCE_VOCABULARY, nearest, listed)
    assert set(dict(mixture.sources(UNKNOWN))) == {"Ġriver", "Ġwater"}
    assert not mixture.known[digit]


def test_translated_neighbours_without_any_vector_of_a_translated_token_are_an_error():
    with pytest.raises(EvidenceError, match="no token with a translation has a vector"):
        translated_neighbours(SOURCE_VOCABULARY, vectors(TARGET, {UNKNOWN: [1, 0]}), TRANSLATED)


def test_a_word_is_half_its_pieces_and_half_its_translation_or_those_of_its_neighbours():
    weights, own = built(LEXICON, space(precision=0.0)), pieces(SOURCE, TARGET).weights.toarray()
    for id in KNOWN:
        assert np.allclose(weights[id], (TRANSLATED.weights.toarray()[id] + own[id]) / 2, atol=1e-6)
    similar = translated_neighbours(SOURCE_VOCABULARY, TOKENS, TRANSLATED).weights.toarray()
    assert np.allclose(weights[UNKNOWN], (similar[UNKNOWN] + own[UNKNOWN]) / 2, atol=1e-6)
    # Neither a vector nor a translation: a token spelled alike in both languages keeps its source row.
    covered = TOKENS.covered | TRANSLATED.known
    assert np.allclose(weights[~covered], fvt(SOURCE, TARGET).weights.toarray()[~covered], atol=1e-6)


@pytest.mark.parametrize(("precision", "share"), [(None, 0.0), (0.0, 0.0), (0.5, 1.0), (0.8, 4.0), (1.0, 9.0)])
def test_aligned_vectors_count_by_the_odds_that_they_are_right(precision, share):
    weights = built(LEXICON, space(precision))
    assert weights[UNKNOWN, SOURCE_WORD] == pytest.approx(share / (2 + share), abs=1e-6)
    assert weights[KNOWN[0], SOURCE_WORD] == pytest.approx(share / (2 + share), abs=1e-6)


@pytest.mark.parametrize("lexicon", [None, BilingualLexicon((("river", "not a token of the vocabulary"),))])
def test_without_known_meanings_a_word_is_half_its_neighbours_in_aligned_vectors(lexicon):
    known = space(precision=0.0)
    weights, own = built(lexicon, known), pieces(SOURCE, TARGET).weights.toarray()
    found = neighbours_in_space(known, inputs(lexicon, known)).weights.toarray()
    assert np.allclose(weights[UNKNOWN], (found[UNKNOWN] + own[UNKNOWN]) / 2, atol=1e-6)


def test_without_vectors_a_word_is_half_its_translation_and_the_others_are_their_pieces():
    weights, own = built(LEXICON, EvidenceError("no vectors")), pieces(SOURCE, TARGET).weights.toarray()
    assert np.allclose(weights[KNOWN[0]], (TRANSLATED.weights.toarray()[KNOWN[0]] + own[KNOWN[0]]) / 2, atol=1e-6)
    assert np.allclose(weights[UNKNOWN], own[UNKNOWN], atol=1e-6)


def test_without_any_evidence_every_token_is_the_mean_of_its_pieces():
    mixture = METHODS["blend"].initialise(inputs(None, EvidenceError("no vectors"))).mixture
    assert mixture.method == "fvt"
    assert (mixture.weights != fvt(SOURCE, TARGET).weights).nnz == 0
