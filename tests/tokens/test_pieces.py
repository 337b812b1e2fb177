"""Target tokens in pieces of the source tokenizer."""

from __future__ import annotations

import pytest

from relexify.tokens import TokenForm, encode_words, source_pieces, vocabulary_of
from tests import pico

TOKENIZERS = {
    "byte-level": pico.byte_level,
    "wordpiece": pico.wordpiece,
    "unigram": pico.unigram,
    "byte fallback": pico.byte_fallback,
}
each = pytest.mark.parametrize("name", list(TOKENIZERS))


@each
def test_a_token_of_the_same_tokenizer_is_its_own_piece(name):
    tokenizer = TOKENIZERS[name]()
    vocabulary = vocabulary_of(tokenizer)
    for id, row in enumerate(source_pieces(tokenizer, vocabulary)):
        assert row == ([] if vocabulary.forms[id].is_special else [id])


@each
@pytest.mark.parametrize("other", list(TOKENIZERS))
def test_pieces_write_the_same_text_across_families(name, other):
    source, target = TOKENIZERS[name](), TOKENIZERS[other](pico.sentences(words=["riverbook", "teacherdoor"]))
    vocabulary, source_vocabulary = vocabulary_of(target), vocabulary_of(source)
    rows = source_pieces(source, vocabulary)
    for form, row in zip(vocabulary.forms, rows, strict=True):
        if form.text.isascii() and form.text.isalpha() and form.text.islower() and not form.is_special and row:
            assert "".join(source_vocabulary.forms[id].text for id in row).strip() == form.text


def test_a_piece_inside_a_word_stays_inside_a_word():
    source = pico.wordpiece()
    source_vocabulary = vocabulary_of(source)
    target = vocabulary_of(pico.byte_level())
    id = next(id for id, form in enumerate(target.forms) if form == TokenForm("er"))
    assert source_vocabulary.tokens[source_pieces(source, target)[id][0]].startswith("##")


def test_an_uncased_source_reads_capitals_in_lower_case():
    source, target = pico.wordpiece(), pico.byte_level(["RIVER HOUSE"] * 50)
    source_vocabulary, target_vocabulary = vocabulary_of(source), vocabulary_of(target)
    rows = source_pieces(source, target_vocabulary)
    id = next(id for id, form in enumerate(target_vocabulary.forms) if form.text == "RIVER")
    assert "".join(source_vocabulary.forms[piece].text for piece in rows[id]) == "river"


def test_half_a_character_falls_into_bytes():
    source = pico.byte_fallback()
    source_vocabulary, target = vocabulary_of(source), vocabulary_of(pico.byte_level(["ба ба ба"] * 50))
    rows = source_pieces(source, target)
    id = next(id for id, form in enumerate(target.forms) if form.is_byte and form.text == "\udcd0")
    assert [source_vocabulary.tokens[piece] for piece in rows[id]] == ["<0xD0>"]


def test_what_the_source_cannot_write_has_no_pieces():
    source, target = pico.wordpiece(), vocabulary_of(pico.byte_level(["ба ба ба"] * 50))
    rows = source_pieces(source, target)
    id = next(id for id, form in enumerate(target.forms) if form.text == "ба")
    assert rows[id] == []


def test_the_space_before_a_word_is_not_a_piece_of_an_unknown_word():
    source = pico.unigram()
    target = vocabulary_of(pico.byte_level(["ба ба! ба {ба}"] * 50))
    rows = dict(zip(target.forms, source_pieces(source, target), strict=True))
    assert rows[TokenForm("ба", starts_word=True)] == [], "all unknown words would have the row of a space"
    assert rows[TokenForm("{")] == []
    assert rows[TokenForm(" ")] == [vocabulary_of(source).ids["▁"]]


@pytest.mark.parametrize("family", ["gpt2", "bert", "llama tied"])
def test_padding_and_truncation_in_the_file_of_a_tokenizer_change_no_pieces(family):
    _, plain = pico.pair(family)
    _, padded = pico.pair(family)
    padded.backend_tokenizer.enable_padding(length=16)
    padded.backend_tokenizer.enable_truncation(2)
    words = ["hello", "a,b,c!", "?"]
    assert encode_words(padded, words) == encode_words(plain, words)
    target = vocabulary_of(pico.pair("gpt2")[1])
    assert source_pieces(padded, target) == source_pieces(plain, target)
    assert padded.backend_tokenizer.padding is not None, "the tokenizer itself was changed"
