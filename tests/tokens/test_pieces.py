"""Target tokens in pieces of the source tokenizer."""

from __future__ import annotations

import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from relexify.methods.parts.copying import shared
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


def bert_with_ideographs() -> Tokenizer:
    """A tokenizer whose normaliser puts spaces around ideographs, although each has a token inside words too."""
    tokens = ["[UNK]", *"中国大学as", *(f"##{each}" for each in "中国大学as")]
    backend = Tokenizer(models.WordPiece({token: id for id, token in enumerate(tokens)}, unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer(lowercase=False)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return backend


@pytest.mark.parametrize("family", [pico.byte_level, pico.unigram])
def test_ideographs_are_split_as_a_bert_reads_them_in_running_text(family):
    source, target = bert_with_ideographs(), family(["中国大学 中国 大学 大as"] * 50)
    source_vocabulary, vocabulary = vocabulary_of(source), vocabulary_of(target)
    compared = 0
    for form, row in zip(vocabulary.forms, source_pieces(source, vocabulary), strict=True):
        if (form.text and set(form.text) <= set("中国大学")) or form.text.startswith("大"):
            compared += len(form.text) > 1
            assert [source_vocabulary.tokens[id] for id in row] == source.encode(form.text).tokens
    assert compared


def test_white_space_that_the_source_does_not_clean_has_no_pieces():
    source, target = bert_with_ideographs(), pico.byte_level()
    source.normalizer = normalizers.BertNormalizer(clean_text=False, lowercase=False)
    vocabulary = vocabulary_of(target)
    assert source_pieces(source, vocabulary)[vocabulary.ids["Ċ"]] == []


@pytest.mark.parametrize("family", [pico.byte_level, pico.unigram])
def test_an_ideograph_is_the_same_token_as_that_which_a_bert_uses(family):
    bert, other = bert_with_ideographs(), family(["中 国 大 学 中国大学"] * 50)
    berts, others = vocabulary_of(bert), vocabulary_of(other)
    single = [id for id, form in enumerate(others.forms) if form.text in set("中国大学")]
    assert single
    rows = shared(bert, other).weights
    for id in single:
        assert [berts.tokens[found] for found in rows[[id]].indices] == [others.forms[id].text]
    rows = shared(other, bert).weights
    for token in "中国大学":
        found = rows[[berts.ids[token]]].indices
        assert [others.forms[id].text for id in found] == [token]


@pytest.mark.parametrize("layout", [pico.unigram, pico.byte_fallback, pico.llama2_layout, pico.gemma_layout])
@pytest.mark.parametrize("prefix", ["", " "])
def test_exact_spaces_are_those_of_the_words_also_inside_them(layout, prefix):
    tokenizer = layout(["xanh nhà cửa xanhnhà"] * 50)
    (ids,) = encode_words(tokenizer, [f"{prefix}nhà cửa"], exact_spaces=True)
    assert "".join(tokenizer.convert_ids_to_tokens(ids)) == f"{prefix}nhà cửa".replace(" ", "▁")
    assert encode_words(tokenizer, ["", " "], exact_spaces=True)[0] == []


def test_exact_spaces_change_nothing_else():
    tokenizer = pico.unigram()
    words = [" the", " doorwindow", " 12,5", "…"]
    (*spaced, _), (*exact, lone) = encode_words(tokenizer, words), encode_words(tokenizer, words, exact_spaces=True)
    assert spaced == exact
    assert "▁" not in tokenizer.convert_ids_to_tokens(lone)
    assert tokenizer("the").input_ids[0] == spaced[0][0], "the tokenizer itself was changed"
