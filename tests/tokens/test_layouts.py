"""The layouts of the tokenizers that people have: Llama 2 and 3, Mistral, Gemma, Qwen."""

from __future__ import annotations

import numpy as np
import pytest
from transformers import AutoTokenizer

from relexify.evidence.vectors import WordVectors, subwords_from_words
from relexify.methods.fvt import fvt
from relexify.methods.parts.copying import neutral, shared
from relexify.tokens import TokenForm, encode_words, source_pieces, train_tokenizer_like, vocabulary_of
from tests import pico

LINES = pico.sentences(words=pico.foreign_words(), seed=3)
UNCUT = {"llama 2": pico.llama2_layout, "mistral": pico.mistral_layout, "gemma": pico.gemma_layout}
LAYOUTS = UNCUT | {"llama 3": pico.llama3_layout, "qwen": pico.qwen_layout}
uncut = pytest.mark.parametrize("layout", list(UNCUT))
layouts = pytest.mark.parametrize("layout", list(LAYOUTS))


def tokens_of(tokenizer, ids):
    return tokenizer.convert_ids_to_tokens(ids)


@layouts
def test_special_tokens_around_a_text_have_the_target_ids(layout):
    source = LAYOUTS[layout]()
    target = train_tokenizer_like(source, lambda: LINES, 450)
    assert tokens_of(target, target("").input_ids) == tokens_of(source, source("").input_ids)
    assert tokens_of(target, target("", "").input_ids) == tokens_of(source, source("", "").input_ids)


def test_the_renumbered_frame_survives_saving(tmp_path):
    target = train_tokenizer_like(pico.llama3_layout(), lambda: LINES, 350)
    target.save_pretrained(tmp_path)
    assert AutoTokenizer.from_pretrained(tmp_path)("").input_ids == [target.bos_token_id]


@uncut
def test_no_trained_token_spans_a_space(layout):
    target = train_tokenizer_like(UNCUT[layout](), lambda: LINES, 700)
    assert not [token for token in target.get_vocab() if "▁" in token.lstrip("▁")]
    assert any(token.startswith("▁") and len(token) > 5 for token in target.get_vocab())


@layouts
def test_a_retrained_tokenizer_writes_back_what_it_reads(layout):
    target = train_tokenizer_like(LAYOUTS[layout](), lambda: LINES, 700)
    for text in [*LINES[:20], "two  spaces", "日本 ба", "a\n\nb"]:
        assert target.decode(target(text, add_special_tokens=False).input_ids) == text


@layouts
def test_the_source_pre_tokeniser_and_normaliser_are_kept(layout):
    source = LAYOUTS[layout]()
    before = source.backend_tokenizer.to_str()
    target = train_tokenizer_like(source, lambda: LINES, 450)
    for part in ("pre_tokenizer", "normalizer", "decoder"):
        ours, theirs = (getattr(each.backend_tokenizer, part) for each in (target, source))
        assert str(ours) == str(theirs)
    assert source.backend_tokenizer.to_str() == before


@uncut
def test_uncut_text_is_encoded_word_by_word(layout):
    target = train_tokenizer_like(UNCUT[layout](), lambda: LINES, 700)
    first, *others = LINES[0].split(" ")
    words = encode_words(target, [first]) + encode_words(target, others, after_space=True)
    assert target(LINES[0], add_special_tokens=False).input_ids == [id for word in words for id in word]


@uncut
def test_digits_and_punctuation_are_not_copied_from_byte_tokens(layout):
    source = UNCUT[layout]()
    source_vocabulary, target = vocabulary_of(source), pico.byte_level()
    target_vocabulary = vocabulary_of(target)
    for mixture in (neutral(source, target), shared(source, target)):
        for text in "0123456789,.":
            assert mixture.sources(target_vocabulary.ids[text]) == [(text, 1.0)]
    assert source_vocabulary.ids_by_form[TokenForm(" ")] == source_vocabulary.ids["▁"]


@uncut
def test_a_byte_without_an_ordinary_token_is_still_found(layout):
    source = vocabulary_of(UNCUT[layout]())
    assert source.ids_by_form[TokenForm("\n")] == source.ids["<0x0A>"]


@layouts
def test_a_word_after_a_space_has_one_space(layout):
    tokenizer = LAYOUTS[layout]()
    vocabulary = vocabulary_of(tokenizer)
    for ids in (*encode_words(tokenizer, [" water"]), *encode_words(tokenizer, ["water"], after_space=True)):
        assert "".join(vocabulary.forms[id].surface for id in ids) == " water"


@uncut
def test_white_space_is_cut_without_a_space_more(layout):
    source = UNCUT[layout]()
    source_vocabulary = vocabulary_of(source)
    target = pico.byte_level()
    target.add_tokens(["  ", "\n\n", " \n"])
    rows = source_pieces(source, vocabulary_of(target))
    for text in ("  ", "\n\n", " \n"):
        row = rows[target.convert_tokens_to_ids(text)]
        assert "".join(source_vocabulary.forms[id].surface for id in row) == text


@layouts
def test_added_tokens_are_read_as_plain_text(layout):
    tokenizer = LAYOUTS[layout]()
    tokenizer.add_tokens(["über", "Ñandú"])
    forms = vocabulary_of(tokenizer).forms
    assert forms[tokenizer.convert_tokens_to_ids("über")] == TokenForm("über")
    assert forms[tokenizer.convert_tokens_to_ids("Ñandú")] == TokenForm("Ñandú")


def test_punctuation_reaches_a_wordpiece_source():
    source, target = pico.wordpiece(), pico.byte_level()
    assert "##," not in source.get_vocab()
    target.add_tokens([".,.", " ,,"])
    mixture = fvt(source, target)
    assert mixture.sources(target.convert_tokens_to_ids(",")) == [(",", 1.0)]
    source_vocabulary, rows = vocabulary_of(source), source_pieces(source, vocabulary_of(target))
    assert [source_vocabulary.tokens[id] for id in rows[target.convert_tokens_to_ids(".,.")]] == [".", ",", "."]


def test_letters_inside_a_word_do_not_become_words():
    source = pico.wordpiece()
    target = pico.byte_level(["xq xq"] * 50)
    target.add_tokens(["ж"])
    assert source_pieces(source, vocabulary_of(target))[target.convert_tokens_to_ids("ж")] == []


@pytest.mark.parametrize("layout", ["llama 2", "mistral", "llama 3"])
def test_special_tokens_get_no_vector_from_words_that_spell_them(layout):
    tokenizer = LAYOUTS[layout]()
    words = ["water", tokenizer.eos_token, "river"]
    vectors = WordVectors(words, np.eye(3, 4, dtype=np.float32), None, None)
    subwords = subwords_from_words(tokenizer, vectors)
    assert not subwords.covered[tokenizer.eos_token_id]
    assert not subwords.matrix[tokenizer.eos_token_id].any()
    assert subwords.covered.any()


def test_added_tokens_of_a_chat_template_survive_retraining():
    source = pico.qwen_layout()
    target = train_tokenizer_like(source, lambda: LINES, 330)
    assert len(target) <= 330
    for name in ("<tool_call>", "</tool_call>"):
        assert tokens_of(target, target(name, add_special_tokens=False).input_ids) == [name]
        ours, theirs = (each.added_tokens_decoder[each.convert_tokens_to_ids(name)] for each in (target, source))
        assert (ours.special, ours.normalized) == (theirs.special, theirs.normalized) == (False, False)


def test_added_tokens_survive_saving_retraining_and_saving(tmp_path):
    pico.qwen_layout().save_pretrained(tmp_path / "old")
    target = train_tokenizer_like(AutoTokenizer.from_pretrained(tmp_path / "old"), lambda: LINES, 330)
    target.save_pretrained(tmp_path / "new")
    again = AutoTokenizer.from_pretrained(tmp_path / "new")
    assert len(again) == len(target) <= 330
    assert sorted(again.get_vocab().values()) == list(range(len(again)))
    assert again("<tool_call>a").input_ids == target("<tool_call>a").input_ids


def test_added_placeholders_are_dropped():
    source = pico.gemma_layout()
    source.add_tokens([f"<unused{number}>" for number in range(500)])
    target = train_tokenizer_like(source, lambda: LINES, 450)
    assert "<unused7>" not in target.get_vocab()
