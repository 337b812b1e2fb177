"""The default method: what it makes of the evidence that there is."""

from __future__ import annotations

import logging
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

from relexify.errors import EvidenceError, InputError
from relexify.evidence.alignment import Rotation
from relexify.evidence.bitext import Bitext
from relexify.evidence.evidence import Evidence
from relexify.evidence.lexicon import BilingualLexicon
from relexify.evidence.lexicon.retrieval import Quality
from relexify.evidence.vectors import SubwordVectors
from relexify.methods.fvt import fvt, pieces
from relexify.methods.inputs import Inputs
from relexify.methods.parts.copying import shared
from relexify.methods.parts.token_space import TokenSpace
from relexify.methods.parts.translated_neighbours import translated_neighbours
from relexify.methods.parts.translations import translations
from relexify.methods.parts.vector_alignment import AlignedBy
from relexify.methods.registry import METHODS
from relexify.methods.wechsel import neighbours_in_space
from relexify.mixture import Origin, mixture_of_rows, softmax_weights
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
PIECES = pieces(SOURCE, TARGET).weights.toarray()
ROTATION = Rotation(
    np.eye(2), pairs_used=600, coverage=1.0, quality=Quality(0.5, csls_precision=0.5, words=60, candidates=1_000)
)


def vectors(tokenizer, rows: dict[int, list[float]]) -> SubwordVectors:
    """Vectors of a few tokens; the others are not covered."""
    matrix = np.zeros((len(vocabulary_of(tokenizer)), 2), np.float32)
    for id, row in rows.items():
        matrix[id] = row
    return SubwordVectors(vocabulary_of(tokenizer), matrix, np.any(matrix != 0, axis=1))


TOKENS = vectors(TARGET, {KNOWN[0]: [1, 0], KNOWN[1]: [0, 1], UNKNOWN: [0.8, 0.6]})


def inputs(lexicon: BilingualLexicon | None = LEXICON, tokens: SubwordVectors | None = TOKENS) -> Inputs:
    """Inputs whose vectors are already known, or cannot be had."""

    class Known(Inputs):
        def token_space(self, *arguments: object, **options: object) -> TokenSpace:
            return TokenSpace(
                vectors(SOURCE, {SOURCE.convert_tokens_to_ids("Ġteacher"): [1, 1]}), self.target_subwords, ROTATION
            )

        @property
        def target_subwords(self) -> SubwordVectors:
            if tokens is None:
                raise EvidenceError("there are no vectors")
            return tokens

        @property
        def target_token_vectors(self) -> SubwordVectors:
            return self.target_subwords

    evidence = Evidence(Corpus.from_lines([]), Corpus.from_lines([]), lexicon=lexicon)
    return Known(SOURCE, TARGET, evidence, read_embedding=lambda: np.zeros((len(SOURCE), 2)))


def built(inputs: Inputs) -> np.ndarray:
    """Return the weights of the default method, dense."""
    weights: np.ndarray = METHODS["blend"].initialise(inputs).mixture.weights.toarray()
    return weights


def test_a_token_without_a_translation_takes_those_of_its_neighbours_by_similarity():
    mixture = translated_neighbours(SOURCE, TOKENS, TRANSLATED, temperature=0.1)
    near, far = softmax_weights(np.array([[0.8, 0.6]]), 0.1)[0]
    assert dict(mixture.sources(UNKNOWN)) == pytest.approx({"Ġriver": near, "Ġwater": far}, abs=1e-6)


def test_the_twenty_nearest_translations_count_unless_others_are_requested():
    *known, word = WORDS[:25]
    english = [id for id, form in enumerate(SOURCE_VOCABULARY.forms) if form.starts_word][: len(known)]
    translated = mixture_of_rows(
        [[english[known.index(id)]] if id in known else [] for id in range(len(VOCABULARY))],
        SOURCE_VOCABULARY,
        VOCABULARY,
        method="translations",
        origin=Origin.MIXED,
    )
    angles = np.linspace(0.1, 1.5, len(known))
    rows = {id: [np.cos(angle), np.sin(angle)] for id, angle in zip(known, angles, strict=True)}
    found = translated_neighbours(SOURCE, vectors(TARGET, {**rows, word: [1, 0]}), translated).weights.toarray()[word]
    expected = softmax_weights(np.cos(angles[None, :20]), 0.1)[0]
    assert np.allclose(found[english], [*expected, 0, 0, 0, 0], atol=1e-6)


def test_tokens_with_a_translation_and_tokens_without_a_vector_have_no_translated_neighbours():
    mixture = translated_neighbours(SOURCE, TOKENS, TRANSLATED)
    assert np.flatnonzero(mixture.known).tolist() == [UNKNOWN]


def test_digits_are_no_neighbours_even_if_the_dictionary_lists_them():
    digit = TARGET.convert_tokens_to_ids("7")
    listed = translations(SOURCE, TARGET, replace(LEXICON, pairs=(*LEXICON.pairs, ("teacher", "7"))))
    assert listed.known[digit]
    nearest = replace(TOKENS, matrix=TOKENS.matrix.copy(), covered=TOKENS.covered.copy())
    nearest.matrix[digit], nearest.covered[digit] = TOKENS.matrix[UNKNOWN], True
    mixture = translated_neighbours(SOURCE, nearest, listed)
    assert set(dict(mixture.sources(UNKNOWN))) == {"Ġriver", "Ġwater"}
    assert not mixture.known[digit]


def test_translated_neighbours_without_any_vector_of_a_translated_token_are_an_error():
    with pytest.raises(EvidenceError, match="no token with a translation has a vector"):
        translated_neighbours(SOURCE, vectors(TARGET, {UNKNOWN: [1, 0]}), TRANSLATED)


def test_a_word_is_mostly_its_translation_or_else_partly_those_of_its_neighbours():
    similar = translated_neighbours(SOURCE, TOKENS, TRANSLATED).weights.toarray()
    weights = built(inputs())
    for id in KNOWN:
        assert np.allclose(weights[id], (3 * TRANSLATED.weights.toarray()[id] + PIECES[id]) / 4, atol=1e-6)
    assert np.allclose(weights[UNKNOWN], (similar[UNKNOWN] + 3 * PIECES[UNKNOWN]) / 4, atol=1e-6)


def test_a_token_spelled_alike_that_has_neither_translation_nor_vector_keeps_its_source_row():
    rest = ~(TOKENS.covered | TRANSLATED.known)
    assert np.allclose(built(inputs())[rest], fvt(SOURCE, TARGET).weights.toarray()[rest], atol=1e-6)


def test_beside_a_dictionary_the_vectors_of_the_source_language_are_not_needed(monkeypatch):
    known = inputs()
    monkeypatch.setattr(type(known), "token_space", None)
    initialisation = METHODS["blend"].initialise(known)
    assert initialisation.rotation is None


def test_without_translations_a_word_is_partly_its_neighbours_in_aligned_vectors():
    known = inputs(lexicon=None)
    found = neighbours_in_space(known.token_space(), known).weights.toarray()
    assert np.allclose(built(known)[UNKNOWN], (found[UNKNOWN] + 3 * PIECES[UNKNOWN]) / 4, atol=1e-6)
    assert METHODS["blend"].initialise(known).rotation is ROTATION


def test_aligned_vectors_that_are_noise_give_way_to_neighbours_in_both_vocabularies(monkeypatch, caplog):
    noise = Quality(precision=0.05, csls_precision=0.2, words=60, candidates=1_000)
    monkeypatch.setattr(sys.modules[__name__], "ROTATION", replace(ROTATION, quality=noise))
    assert_half_focus(None, source_vectors=Path("source.vec"))
    assert "find the translation of 5.0 % of the words, so they are not used" in caplog.text


@pytest.mark.parametrize(("precision", "are_used"), [(0.1, True), (0.099, False)])
def test_aligned_vectors_are_used_from_a_tenth_of_right_translations_on(precision, are_used, monkeypatch):
    quality = Quality(precision, csls_precision=precision, words=1_000, candidates=1_000)
    monkeypatch.setattr(sys.modules[__name__], "ROTATION", replace(ROTATION, quality=quality))
    alike = next(id for id in np.flatnonzero(shared(SOURCE, TARGET).known) if VOCABULARY.forms[id].text.isalpha())
    known = inputs(lexicon=None, tokens=vectors(TARGET, {alike: [1, 0], UNKNOWN: [0.8, 0.6]}))
    assert (METHODS["blend"].initialise(known).rotation is not None) == are_used


def test_given_vectors_of_the_target_language_are_those_that_focus_reads(monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "ROTATION", replace(ROTATION, quality=None, pairs_used=50))
    alike = next(id for id in np.flatnonzero(shared(SOURCE, TARGET).known) if VOCABULARY.forms[id].text.isalpha())
    known = inputs(lexicon=None, tokens=vectors(TARGET, {alike: [1, 0], UNKNOWN: [0.8, 0.6]}))
    # Vectors that would be trained on the text say nothing about the word.
    monkeypatch.setattr(type(known), "target_token_vectors", vectors(TARGET, {alike: [1, 0]}))
    assert np.allclose(built(known)[UNKNOWN], PIECES[UNKNOWN], atol=1e-6)
    given = replace(known, evidence=replace(known.evidence, target_vectors=Path("target.vec")))
    copy = shared(SOURCE, TARGET).weights.toarray()[alike]
    assert np.allclose(built(given)[UNKNOWN], (copy + PIECES[UNKNOWN]) / 2, atol=1e-6)


@pytest.mark.parametrize("aligned_by", ["dictionary", "identical", "self-learning", "random"])
def test_aligned_vectors_that_nobody_has_tested_are_not_used(aligned_by, monkeypatch, caplog):
    monkeypatch.setattr(sys.modules[__name__], "ROTATION", replace(ROTATION, quality=None, pairs_used=50))
    assert_half_focus(None, aligned_by=aligned_by, source_vectors=Path("source.vec"))
    assert "are based on 50 pairs of words, too few to test them, so they are not used" in caplog.text


@pytest.mark.parametrize("aligned_by", ["unsupervised", "adversarial", "nothing"])
def test_aligned_vectors_that_need_no_known_pairs_are_used(aligned_by, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "ROTATION", replace(ROTATION, quality=None))
    assert METHODS["blend"].initialise(replace(inputs(lexicon=None), aligned_by=aligned_by)).rotation is ROTATION


def test_aligned_vectors_are_not_used_beside_a_dictionary_that_translates_no_token(caplog):
    assert_half_focus(BilingualLexicon((("river", "not a token of the vocabulary"),)))
    assert "the dictionary or parallel text translates no token, so it is not used" in caplog.text


def test_a_dictionary_that_translates_almost_nothing_is_reported(caplog):
    word = VOCABULARY.forms[KNOWN[0]].text
    METHODS["blend"].initialise(inputs(BilingualLexicon((("river", word),))))
    count = int(translations(SOURCE, TARGET, BilingualLexicon((("river", word),))).known.sum())
    expected = "translates only one token, and" if count == 1 else f"translates only {count} tokens, and"
    assert f"{expected} the meanings of all others are guessed from this" in caplog.text
    caplog.clear()
    many = tuple(("river", VOCABULARY.forms[id].text) for id in WORDS)
    METHODS["blend"].initialise(inputs(BilingualLexicon(many)))
    assert "translates only" not in caplog.text


def test_with_text_alone_an_attempt_to_align_vectors_that_fails_is_no_warning(monkeypatch, caplog):
    monkeypatch.setattr(sys.modules[__name__], "ROTATION", replace(ROTATION, quality=None, pairs_used=50))
    with caplog.at_level(logging.INFO, "relexify"):
        assert_half_focus(None)
    levels = {record.levelname for record in caplog.records if "are based on 50 pairs of words" in record.getMessage()}
    assert levels == {"INFO"}
    assert "were also tried, but are based on 50 pairs of words, too few to test them); a dictionary" in caplog.text


def assert_half_focus(
    lexicon: BilingualLexicon | None, *, aligned_by: AlignedBy = "dictionary", source_vectors: Path | None = None
) -> None:
    alike = next(id for id in np.flatnonzero(shared(SOURCE, TARGET).known) if VOCABULARY.forms[id].text.isalpha())
    tokens = vectors(TARGET, {alike: [1, 0], UNKNOWN: [0.8, 0.6]})
    known = replace(inputs(lexicon, tokens=tokens), aligned_by=aligned_by)
    known = replace(known, evidence=replace(known.evidence, source_vectors=source_vectors))
    assert METHODS["blend"].initialise(known).rotation is None
    copy = shared(SOURCE, TARGET).weights.toarray()[alike]
    assert np.allclose(built(known)[UNKNOWN], (copy + PIECES[UNKNOWN]) / 2, atol=1e-6)


def test_without_vectors_a_word_is_mostly_its_translation_and_the_others_are_their_pieces():
    weights = built(inputs(tokens=None))
    expected = (3 * TRANSLATED.weights.toarray()[KNOWN[0]] + PIECES[KNOWN[0]]) / 4
    assert np.allclose(weights[KNOWN[0]], expected, atol=1e-6)
    assert np.allclose(weights[UNKNOWN], PIECES[UNKNOWN], atol=1e-6)


def test_without_any_evidence_every_token_is_the_mean_of_its_pieces():
    mixture = METHODS["blend"].initialise(inputs(lexicon=None, tokens=None)).mixture
    assert mixture.method == "fvt"
    assert (mixture.weights != fvt(SOURCE, TARGET).weights).nnz == 0


def test_neighbours_of_aligned_tokens_are_found_too(tmp_path):
    (tmp_path / "pairs.tsv").write_text(f" river\t {VOCABULARY.forms[KNOWN[0]].text}\n")
    known = inputs(lexicon=None)
    counts = csr_array(([3.0], ([KNOWN[0]], [SOURCE.convert_tokens_to_ids("Ġriver")])), shape=TRANSLATED.weights.shape)
    evidence = replace(known.evidence, bitext=Bitext.open(tmp_path / "pairs.tsv"))
    known = replace(known, evidence=evidence)
    known.__dict__["aligned_token_counts"] = counts  # as if the text had been aligned
    river = SOURCE.convert_tokens_to_ids("Ġriver")
    assert np.allclose(built(known)[[KNOWN[0], UNKNOWN], river], [0.75, 0.25], atol=1e-6)


def test_a_dictionary_and_parallel_text_know_a_meaning_in_equal_parts(tmp_path):
    word = VOCABULARY.forms[KNOWN[0]].text
    (tmp_path / "pairs.tsv").write_text(f" teacher\t {word}\n")
    known = inputs()
    known = replace(known, evidence=replace(known.evidence, bitext=Bitext.open(tmp_path / "pairs.tsv")))
    river, teacher = (SOURCE.convert_tokens_to_ids(token) for token in ("Ġriver", "Ġteacher"))
    counts = csr_array(([7.0], ([KNOWN[0]], [teacher])), shape=TRANSLATED.weights.shape)
    known.__dict__["aligned_token_counts"] = counts  # as if the text had been aligned
    assert np.allclose(built(known)[KNOWN[0], [river, teacher]], 3 / 8, atol=1e-6)


def test_a_dictionary_with_swapped_columns_is_rejected():
    english = [form.text for form in SOURCE_VOCABULARY.forms if form.starts_word and len(form.text) > 2]
    pairs = [(VOCABULARY.forms[foreign].text, word) for foreign, word in zip(WORDS, english, strict=False)]
    assert len(pairs) >= 10
    message = r"columns of words\.txt look swapped: of 28 .*, 28 have .* and only 0 have the expected order: "
    message += "add `dictionary_swapped"
    with pytest.raises(InputError, match=message):
        built(inputs(BilingualLexicon(tuple(pairs), name="words.txt")))
    unknown = [(f"unknown{number}", f"unbekannt{number}") for number in range(100 * len(pairs))]
    built(inputs(BilingualLexicon((*pairs, *unknown), name="words.txt")))  # less than one in a hundred
