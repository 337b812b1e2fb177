"""The words of a mixture, and how much of each comes from its own spelling."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from relexify.mixture import Mixture, Origin, is_part_of, spelling_shares, words_of
from relexify.tokens import Spelling, TokenForm, TokenizerFamily

SENTENCEPIECE = Spelling(TokenizerFamily.METASPACE, byte_fallback=True)


def mixture(target, source=("a",), weights=None, origin=Origin.MIXED):
    filled = np.zeros((len(target), len(source)), np.float32) if weights is None else np.array(weights, np.float32)
    origins = np.broadcast_to(np.array(origin, np.uint8), len(target))
    return Mixture(csr_array(filled), origins, "test", list(source), list(target), SENTENCEPIECE, SENTENCEPIECE)


@pytest.mark.parametrize(
    ("tokens", "words"),
    [
        (["▁ya", "le", "▁2024", "▁shule", "▁a,b", "▁mtoto", "<0xC3>"], ["▁shule", "▁mtoto"]),
        (["学", "学校", "。", "▁学", "ab"], ["学", "学校", "▁学"]),
        (["โรงเรียน", "1", "น้ำ"], ["โรงเรียน", "น้ำ"]),
        (["▁학교", "교", "▁ab"], ["▁학교"]),  # two syllables, but five letters
        (["▁ya", "le"], ["▁ya"]),
        (["le", "."], ["le", "."]),
    ],
)
def test_words_are_letters_after_a_space_or_of_a_script_without_spaces(tokens, words):
    assert [tokens[id] for id in words_of(mixture(tokens))] == words


def test_words_are_no_special_tokens():
    assert words_of(mixture(["▁shule", "▁mtoto"], origin=[Origin.SPECIAL, Origin.COPIED])) == [1]


@pytest.mark.parametrize(
    ("source", "is_part"),
    [
        (TokenForm("sh", starts_word=True), True),
        (TokenForm("ule"), True),
        (TokenForm("ule", starts_word=True), False),  # the beginning of another word
        (TokenForm("Sh"), True),
        (TokenForm(" "), True),
        (TokenForm("school", starts_word=True), False),
    ],
)
def test_a_source_token_is_a_part_of_a_word_that_has_its_letters(source, is_part):
    assert is_part_of(source, TokenForm("shule", starts_word=True)) is is_part


def test_bytes_and_letters_without_their_marks_are_parts_of_a_word():
    word = TokenForm("über", starts_word=True)
    assert is_part_of(TokenForm("\udcc3", is_byte=True), word)
    assert not is_part_of(TokenForm("\udcc4", is_byte=True), word)
    space_and_byte = Spelling(TokenizerFamily.BYTE_LEVEL).read("ĠÃ")
    assert space_and_byte.is_byte
    assert is_part_of(space_and_byte, word)
    assert not is_part_of(space_and_byte, TokenForm("über"))
    assert is_part_of(TokenForm("uber", starts_word=True), word)
    assert not is_part_of(TokenForm("\N{COMBINING DIAERESIS}"), TokenForm("uber", starts_word=True))


def test_the_share_of_the_spelling_is_that_of_the_absolute_weights_of_its_parts():
    built = mixture(["▁shule", "▁mtoto"], ["▁sh", "ule", "▁school"], [[0.125, -0.125, 0.75], [0, 0, 0]])
    assert np.allclose(spelling_shares(built, [0, 1]), [0.25, 0])
    assert len(spelling_shares(built, [])) == 0
