"""Canonical forms: one text, whatever the family."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relexify.errors import VocabularyError
from relexify.tokens import Spelling, TokenForm, TokenizerFamily, vocabulary_of
from tests import pico

BYTE_LEVEL = Spelling(TokenizerFamily.BYTE_LEVEL)
SENTENCEPIECE = Spelling(TokenizerFamily.METASPACE, byte_fallback=True)
WORDPIECE = Spelling(TokenizerFamily.WORDPIECE, prefix="##")


def test_one_word_has_one_form_in_every_family():
    expected = TokenForm("über", starts_word=True)
    assert BYTE_LEVEL.read("ĠÃ¼ber") == SENTENCEPIECE.read("▁über") == WORDPIECE.read("über") == expected
    assert BYTE_LEVEL.read("Ã¼ber") == SENTENCEPIECE.read("über") == WORDPIECE.read("##über") == TokenForm("über")


def test_a_broken_character_is_the_same_byte_in_every_family():
    form = BYTE_LEVEL.read("Ã")
    assert form.is_byte
    assert form == SENTENCEPIECE.read("<0xC3>")
    assert form != BYTE_LEVEL.read("Â")


def test_white_space_alone_keeps_all_of_it():
    assert BYTE_LEVEL.read("Ġ") == SENTENCEPIECE.read("▁") == TokenForm(" ")
    assert BYTE_LEVEL.read("ĠĠĠ") == SENTENCEPIECE.read("▁▁▁") == TokenForm("   ")
    assert BYTE_LEVEL.read("Ċ") == TokenForm("\n")


def test_only_one_space_belongs_to_the_start_of_a_word():
    assert BYTE_LEVEL.read("ĠĠa") == TokenForm(" a", starts_word=True)
    assert BYTE_LEVEL.read("ĠĠa").surface == "  a"


def test_wordpiece_keeps_a_lone_prefix_as_a_token():
    assert WORDPIECE.read("##") == TokenForm("##", starts_word=True)


@given(st.binary(min_size=1, max_size=12))
def test_byte_level_spelling_survives_a_round_trip_for_all_bytes(raw):
    surface = raw.decode("utf-8", "surrogateescape")
    form = TokenForm(surface)
    again = BYTE_LEVEL.read(BYTE_LEVEL.write(form))
    assert again.surface == surface
    assert again.is_byte == any("\udc80" <= character <= "\udcff" for character in surface)


@given(st.text(st.characters(codec="utf-8", exclude_characters="▁ "), min_size=1, max_size=8), st.booleans())
def test_spelling_survives_a_round_trip_in_every_family(text, starts_word):
    form = TokenForm(text, starts_word)
    if text.strip():
        assert BYTE_LEVEL.read(BYTE_LEVEL.write(form)) == form
        if not text.startswith("<0x"):
            assert SENTENCEPIECE.read(SENTENCEPIECE.write(form)) == form
    if not text.startswith("#"):
        assert WORDPIECE.read(WORDPIECE.write(form)) == form


@pytest.mark.parametrize(
    ("make", "family"),
    [
        (pico.byte_level, TokenizerFamily.BYTE_LEVEL),
        (pico.roberta_tokenizer, TokenizerFamily.BYTE_LEVEL),
        (pico.wordpiece, TokenizerFamily.WORDPIECE),
        (pico.unigram, TokenizerFamily.METASPACE),
        (pico.byte_fallback, TokenizerFamily.METASPACE),
    ],
)
def test_the_family_of_a_real_tokenizer_is_recognised(make, family):
    tokenizer = make()
    vocabulary = vocabulary_of(tokenizer)
    assert vocabulary.spelling.family is family
    assert len(vocabulary) == len(tokenizer)
    assert "river" in {form.text for form in vocabulary.forms}


def test_words_may_have_joiners_and_marks():
    for text in ("می\u200cخواهم", "हिन्दी", "क्\u200dष", "שָׁלוֹם", "ߞߊ߲߬ߘߐ"):
        assert TokenForm(text, starts_word=True).is_word
        assert not TokenForm(text).is_word
    assert TokenForm("ภาษา").is_word
    assert not TokenForm("\u200c", starts_word=True).is_word


def test_a_bare_backend_gives_the_same_forms_as_its_wrapper():
    tokenizer = pico.wordpiece()
    wrapped, bare = vocabulary_of(tokenizer), vocabulary_of(tokenizer.backend_tokenizer)
    assert wrapped.forms == bare.forms
    assert wrapped.special == bare.special


def test_special_tokens_are_known_by_their_role():
    tokenizer = pico.roberta_tokenizer()
    special = vocabulary_of(tokenizer).special
    assert special["mask"] == tokenizer.mask_token_id
    assert special["pad"] == 1
    assert special["cls"] == special["bos"] == 0


def test_chat_tokens_have_a_role():
    tokenizer = pico.byte_level(bos_token="<s>", eos_token="</s>", pad_token="<|im_end|>")
    assert vocabulary_of(tokenizer).special["turn_end"] == tokenizer.pad_token_id


def test_find_prefers_the_word_after_a_space():
    vocabulary = vocabulary_of(pico.byte_level())
    found = [vocabulary.tokens[id] for id in vocabulary.find("river")]
    assert "Ġriver" in found


def test_a_tokenizer_without_a_backend_is_rejected():
    with pytest.raises(VocabularyError, match="no fast backend"):
        vocabulary_of(object())
