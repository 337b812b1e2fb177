"""Dictionaries of several sizes, for the language of the text and for another one, are told apart."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
import torch

from relexify.evidence.evidence import Evidence
from relexify.evidence.lexicon import BilingualLexicon
from relexify.evidence.vectors.options import VectorTraining
from relexify.methods.inputs import Inputs
from relexify.methods.parts.translations import translations
from relexify.recipes.demo import make_material
from relexify.systems.transfer.assessment.dictionary import assess_dictionary
from relexify.systems.transfer.assessment.start import Start, cover_text
from relexify.systems.transfer.assessment.verdict import judge
from relexify.systems.transfer.initialisation import initialise
from relexify.text import Corpus
from relexify.tokens import train_tokenizer_like
from tests import pico

MATERIAL = make_material(0, 3_000, limit=150_000)
OTHER = make_material(1, 3_000, limit=150_000)
"""The same text in another invented language."""
SOURCE = pico.byte_level(MATERIAL.english, size=4000)
TARGET = train_tokenizer_like(SOURCE, lambda: MATERIAL.invented, 2000)


def inputs_with(pairs, *, common=0.0):
    """Return inputs with these dictionary entries, and source rows that have a component in common."""
    corpus = Corpus.from_lines(MATERIAL.invented)
    evidence = Evidence(corpus, Corpus.from_lines(MATERIAL.held_out), lexicon=BilingualLexicon(tuple(pairs)))
    rows = torch.randn(len(SOURCE), 8, generator=torch.Generator().manual_seed(0)).double().numpy() + common
    vectors = VectorTraining(width=8, epochs=1)
    return Inputs(SOURCE, TARGET, evidence, read_embedding=lambda: rows, vectors=vectors)


def judged(pairs):
    """Return the check and the verdict of a transfer with these dictionary entries, and without scores."""
    inputs = inputs_with(pairs)
    text, counts = cover_text("\n".join(MATERIAL.held_out), SOURCE, TARGET, np.array(["mixed"] * len(TARGET)))
    check = assess_dictionary(inputs, counts)
    origins = {"none": 0, "mixed": len(TARGET)}
    start = Start("blend", origins, "source-rows", None, bits_per_byte={}, text=text, dictionary=check)
    return check, judge(start)


def some(pairs, count):
    """Return entries that are neither rare nor among the most frequent, which make up most of the text."""
    return random.Random(0).sample(pairs[100:300], count)


@pytest.mark.usefixtures("cache")
def test_a_small_dictionary_is_open_if_its_words_are_tokens_and_poor_if_they_are_not():
    check, verdict = judged(some(MATERIAL.lexicon.pairs, 30))
    assert (check.entries, check.related) == (30, None)
    assert 3 < check.matches <= check.frequent <= 30
    assert check.text_share < 0.05
    assert verdict.start == "open"
    assert "too small to tell whether it helps" in verdict.reason
    check, verdict = judged(some(OTHER.lexicon.pairs, 30))
    assert check.frequent >= 20
    assert check.matches <= 1
    assert verdict.start == "poor"
    assert "probably for another language" in verdict.reason


@pytest.mark.usefixtures("cache")
def test_a_large_dictionary_is_poor_if_its_words_are_no_tokens_and_else_judged_by_its_translations():
    check, verdict = judged(OTHER.lexicon.pairs)
    assert check.entries == len(OTHER.lexicon) > 2_000
    assert check.matches < 0.05 * check.frequent
    assert verdict.start == "poor"
    assert "probably for another language" in verdict.reason
    check, verdict = judged(MATERIAL.lexicon.pairs)
    assert check.matches > 0.1 * check.frequent
    assert check.text_share > 0.5
    assert check.related is not None
    assert "another language" not in verdict.reason


@pytest.mark.usefixtures("cache")
def test_what_all_rows_have_in_common_says_nothing_about_translations():
    counts = np.ones(len(TARGET), np.int64)
    plain, shifted = (
        assess_dictionary(inputs_with(MATERIAL.lexicon.pairs, common=common), counts) for common in (0.0, 5.0)
    )
    assert plain.words > 300
    assert shifted.related == pytest.approx(plain.related, abs=1e-9)


@pytest.mark.usefixtures("cache")
def test_the_embedding_of_a_large_model_is_never_in_memory_as_a_whole(monkeypatch):
    monkeypatch.setattr("relexify.methods.inputs._BLOCK", 700)
    counts, inputs = np.ones(len(TARGET), np.int64), inputs_with(MATERIAL.lexicon.pairs, common=1.0)
    rows, read = inputs.embedding, []

    def read_rows(which):
        read.append(len(rows[which]))
        return rows[which]

    def read_embedding():
        raise AssertionError("the whole embedding was read")

    large = replace(inputs, read_embedding=read_embedding, read_rows=read_rows)
    initialise("blend", large)
    assert not read
    by_rows = assess_dictionary(large, counts)
    assert by_rows == assess_dictionary(inputs, counts)
    blocks, rest = divmod(len(SOURCE), 700)
    assert read[1:] == [*[700] * blocks, rest, 0]
    assert 300 < read[0] < len(SOURCE)


@pytest.mark.usefixtures("cache")
def test_a_word_with_and_without_a_capital_is_one_word_of_the_dictionary():
    inputs = inputs_with(MATERIAL.lexicon.pairs)
    vectors = inputs.target_subwords
    translated = translations(SOURCE, TARGET, inputs.evidence.lexicon)
    forms = [vectors.vocabulary.forms[id] for id in np.flatnonzero(vectors.covered & translated.known)]
    texts = {form.text for form in forms if not form.is_neutral}
    words = {text.casefold() for text in texts}
    assert len(words) < len(texts)
    assert assess_dictionary(inputs, np.ones(len(TARGET), np.int64)).words == len(words)
