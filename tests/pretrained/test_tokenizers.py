"""Tokenizers trained on a corpus."""

from __future__ import annotations

import json
import random
import unicodedata
from contextlib import nullcontext

import pytest
from tokenizers import normalizers, pre_tokenizers
from transformers import (
    AutoTokenizer,
    BertConfig,
    GPT2Config,
    LlamaConfig,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen3Config,
    RobertaConfig,
)

from relexify.errors import InputError
from relexify.pretrained import tokenizers
from relexify.pretrained.loading import load_tokenizer
from relexify.text import Corpus
from relexify.tokens import encode_words, normaliser_of
from tests import pico

HINDI = ["नदी", "किताब", "विद्यार्थी", "हिन्दी", "दरवाज़ा", "पढ़ता", "खिड़की", "छोटा"]


def test_a_saved_tokenizer_does_not_say_how_it_was_loaded(tmp_path):
    pico.byte_level().save_pretrained(tmp_path / "first")
    loaded = load_tokenizer(tmp_path / "first")
    loaded.init_kwargs["local_files_only"] = True  # as some versions of transformers do
    tokenizers.save_tokenizer(loaded, tmp_path / "second")
    saved = json.loads((tmp_path / "second" / "tokenizer_config.json").read_text())
    assert not {"is_local", "local_files_only"} & set(saved)
    assert loaded.init_kwargs["local_files_only"] is True, "the tokenizer itself is not changed"


def test_a_tokenizer_is_trained_on_a_sample_of_a_large_corpus(monkeypatch):
    corpus, like = Corpus.from_lines(pico.sentences(400)), pico.byte_level()

    def trained(text: Corpus) -> str:
        return str(tokenizers.train_tokenizer(text, like=like, vocab_size=330).backend_tokenizer.to_str())

    whole, sample = trained(corpus), trained(corpus.subsample(3_000))
    assert whole != sample
    monkeypatch.setattr(tokenizers, "MOST_TEXT", 3_000)
    assert trained(corpus) == sample


@pytest.mark.parametrize("layout", [pico.byte_level, pico.llama3_layout, pico.qwen_layout, pico.wordpiece])
def test_words_with_vowel_marks_are_neither_cut_nor_stripped(tmp_path, layout):
    draw = random.Random(0)
    lines = [" ".join(draw.choices(HINDI, k=8)) for _ in range(200)]
    like = layout()
    target = tokenizers.train_tokenizer(Corpus.from_lines(lines), like=like, vocab_size=len(like) + 200)
    assert len(target.tokenize(lines[0])) == len(lines[0].split())  # every word is one token
    assert target.decode(target(lines[0], add_special_tokens=False).input_ids) == lines[0]
    tokenizers.save_tokenizer(target, tmp_path)
    assert AutoTokenizer.from_pretrained(tmp_path)(lines[:20]).input_ids == target(lines[:20]).input_ids


PREFIXED = pre_tokenizers.ByteLevel(add_prefix_space=True)


@pytest.mark.parametrize("cut", [PREFIXED, pre_tokenizers.Sequence([pre_tokenizers.Sequence([PREFIXED])])])
@pytest.mark.parametrize("normaliser", [None, normalizers.NFC()])
@pytest.mark.parametrize("config", [GPT2Config(), RobertaConfig()])
def test_a_tokenizer_that_puts_a_space_before_a_text_does_not_cut_words_at_marks(tmp_path, normaliser, config, cut):
    like = pico.byte_level()
    like.backend_tokenizer.pre_tokenizer = cut
    like.backend_tokenizer.normalizer = normaliser
    draw = random.Random(0)
    lines = [" ".join(draw.choices(HINDI, k=8)) for _ in range(200)]
    target = tokenizers.train_tokenizer(Corpus.from_lines(lines), like=like, vocab_size=600, config=config)
    words = lines[0].split()
    assert [target.decode(id) for id in target(lines[0]).input_ids] == [f" {word}" for word in words]
    assert target(f" {lines[0]}").input_ids == target(lines[0]).input_ids  # no second space
    assert target.tokenize(f"  {words[0]}")[0] == "Ġ"
    indented = f"{words[0]}\n  {words[1]}\n    {words[2]}"
    assert target.decode(target(indented).input_ids) == f" {indented}"  # no space of another line is lost
    assert encode_words(target, words) == [[id] for id in target(lines[0]).input_ids]
    assert normaliser_of(target) is None or normaliser_of(target)(words[0]) == words[0]
    config.save_pretrained(tmp_path)
    tokenizers.save_tokenizer(target, tmp_path)
    assert AutoTokenizer.from_pretrained(tmp_path)(lines[:20]).input_ids == target(lines[:20]).input_ids


def test_a_space_before_every_part_of_a_text_stays():
    like = pico.byte_level()
    like.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(), PREFIXED])
    target = tokenizers.train_tokenizer(Corpus.from_lines([" ".join(HINDI)] * 50), like=like, vocab_size=400)
    assert target.decode(target("12ab").input_ids) == like.decode(like("12ab").input_ids) == " 12 ab"


def test_marks_are_found_anywhere_in_a_text():
    lines = [f"{sentence} {number}" for number, sentence in enumerate(pico.sentences(20_000))]
    mixed = [*lines, *(f"{number} {' '.join(HINDI)}" for number in range(3_000))]
    assert sum(map(len, lines)) > 500_000
    like = pico.byte_level()
    target = tokenizers.train_tokenizer(Corpus.from_lines(mixed), like=like, vocab_size=600)
    assert len(target.tokenize(f" {' '.join(HINDI)}")) == len(HINDI)


def test_a_tokenizer_with_marks_keeps_the_settings_of_the_source(tmp_path):
    like = pico.byte_level()
    like.add_special_tokens({"extra_special_tokens": ["<|tool|>"]})
    settings = {
        "truncation_side": "left",
        "padding_side": "left",
        "clean_up_tokenization_spaces": True,
        "split_special_tokens": True,
        "model_max_length": 77,
    }
    like = PreTrainedTokenizerFast(
        tokenizer_object=like.backend_tokenizer,
        **like.special_tokens_map,
        extra_special_tokens=["<|tool|>"],
        image_token="<|image|>",
        **settings,
    )
    target = tokenizers.train_tokenizer(Corpus.from_lines([" ".join(HINDI)] * 20), like=like, vocab_size=500)
    tokenizers.save_tokenizer(target, tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    for name, value in settings.items():
        assert getattr(loaded, name) == value
    assert loaded.extra_special_tokens == ["<|tool|>"]
    assert loaded.image_token == "<|image|>"
    assert loaded.special_tokens_map == like.special_tokens_map


def test_a_byte_level_tokenizer_with_marks_has_all_bytes():
    like = pico.byte_level()
    parts = [pre_tokenizers.Digits(individual_digits=True), like.backend_tokenizer.pre_tokenizer]
    like.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(parts)  # as SmolLM2 has it
    target = tokenizers.train_tokenizer(Corpus.from_lines([" ".join(HINDI)] * 20), like=like, vocab_size=500)
    assert set(pre_tokenizers.ByteLevel.alphabet()) <= set(target.get_vocab())
    assert len(target.tokenize(" ".join(HINDI))) == len(HINDI)


def test_a_tokenizer_of_a_class_that_builds_its_own_parts_keeps_marks_when_it_is_loaded(tmp_path):
    pico.byte_level().save_pretrained(tmp_path / "old")
    config = tmp_path / "old" / "tokenizer_config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"tokenizer_class": "GPT2Tokenizer"}))
    like = AutoTokenizer.from_pretrained(tmp_path / "old")
    assert type(like).__name__ == "GPT2Tokenizer"
    lines = [" ".join(HINDI)] * 20
    target = tokenizers.train_tokenizer(Corpus.from_lines(lines), like=like, vocab_size=500)
    tokenizers.save_tokenizer(target, tmp_path / "new")
    loaded = AutoTokenizer.from_pretrained(tmp_path / "new")
    assert len(loaded.tokenize(lines[0])) == len(HINDI)
    assert loaded.eos_token == like.eos_token
    assert list(loaded(lines[0])) == list(like(lines[0]))  # no token types, which GPT-2 would read


@pytest.mark.parametrize(("config", "is_kept"), [(LlamaConfig(), True), (Qwen3Config(), True), (Qwen2Config(), False)])
def test_marks_are_kept_if_transformers_loads_the_tokenizer_as_it_was_saved(tmp_path, caplog, config, is_kept):
    lines = [" ".join(HINDI)] * 20
    target = tokenizers.train_tokenizer(
        Corpus.from_lines(lines), like=pico.qwen_layout(), vocab_size=600, config=config
    )
    config.save_pretrained(tmp_path)
    tokenizers.save_tokenizer(target, tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    assert loaded.tokenize(lines[0]) == target.tokenize(lines[0])
    assert (len(loaded.tokenize(lines[0])) == len(HINDI)) == is_kept
    assert ("models of type qwen2" in caplog.text) == (not is_kept)


@pytest.mark.parametrize(("config", "is_possible"), [(LlamaConfig(), True), (Qwen2Config(), False)])
def test_a_given_tokenizer_that_the_output_would_be_loaded_without_is_rejected(tmp_path, config, is_possible):
    lines = [" ".join(HINDI)] * 20
    trained = tokenizers.train_tokenizer(Corpus.from_lines(lines), like=pico.qwen_layout(), vocab_size=600)
    tokenizers.save_tokenizer(trained, tmp_path)
    given = tokenizers.load_tokenizer(tmp_path)
    with (
        nullcontext() if is_possible else pytest.raises(InputError, match=r"type qwen2.* Qwen2Tokenizer.* differently")
    ):
        tokenizers.check_encoding(given, str(tmp_path), config, lines[0])


def test_a_tokenizer_that_is_not_loaded_as_its_file_says_is_reported(tmp_path, caplog):
    tokenizers.save_tokenizer(
        tokenizers.train_tokenizer(Corpus.from_lines([" ".join(HINDI)] * 20), like=pico.qwen_layout(), vocab_size=600),
        tmp_path,
    )
    Qwen2Config().save_pretrained(tmp_path)
    given = tokenizers.load_tokenizer(tmp_path)
    tokenizers.check_encoding(given, str(tmp_path), Qwen2Config(), " ".join(HINDI))
    assert "as Qwen2Tokenizer, which encodes some text differently from the file" in caplog.text


def test_a_tokenizer_with_padding_and_truncation_in_its_file_is_compared_without_them(tmp_path, caplog):
    pico.saved("bert", tmp_path)
    file, text = tmp_path / "tokenizer.json", "the river " * 40
    state = json.loads(file.read_text())
    state["truncation"] = {"direction": "Right", "max_length": 8, "strategy": "LongestFirst", "stride": 0}
    state["padding"] = {
        "strategy": {"Fixed": 10**12},  # more than any memory
        "direction": "Right",
        "pad_to_multiple_of": None,
        "pad_id": 0,
        "pad_type_id": 0,
        "pad_token": "[PAD]",
    }
    file.write_text(json.dumps(state))
    whole = load_tokenizer(tmp_path)
    assert len(whole(text, add_special_tokens=False).input_ids) >= 80
    tokenizers.check_encoding(whole, str(tmp_path), BertConfig(), text)
    assert "differently" not in caplog.text


@pytest.mark.parametrize("form", ["NFC", "NFD"])
@pytest.mark.parametrize(
    "line", ["ではありません ぱん がくせい", "người Việt Nam nói tiếng Việt", "إلى سؤال مؤمن", "новый чай мой"]
)
def test_an_uncased_tokenizer_keeps_letters_that_are_not_only_accents(line, form):
    line = unicodedata.normalize(form, line)
    target = tokenizers.train_tokenizer(Corpus.from_lines([line] * 50), like=pico.wordpiece(), vocab_size=150)
    assert unicodedata.normalize(
        "NFC", target.backend_tokenizer.normalizer.normalize_str(line)
    ) == unicodedata.normalize("NFC", line.lower())


@pytest.mark.parametrize("config", [None, BertConfig()])
def test_an_uncased_tokenizer_lower_cases_i_and_dotless_i_apart(tmp_path, config):
    line = "İyi günler, ışık ve kırmızı elma ısıtır mı"
    target = tokenizers.train_tokenizer(
        Corpus.from_lines([line] * 50), like=pico.wordpiece(), vocab_size=150, config=config
    )
    for text, small in [
        ("Işık", "ışık"),
        ("KIRMIZI", "kırmızı"),
        ("İyi", "iyi"),
        ("I\u0307yi", "iyi"),
        ("ISITIR", "ısıtır"),
    ]:
        assert target(text).input_ids == target(small).input_ids
        assert normaliser_of(target)(text) == normaliser_of(target)(small)
    assert target("Iyi").input_ids != target("iyi").input_ids
    if config is not None:
        config.save_pretrained(tmp_path)
    tokenizers.save_tokenizer(target, tmp_path)
    assert AutoTokenizer.from_pretrained(tmp_path)(line).input_ids == target(line).input_ids


def test_other_languages_keep_the_usual_lower_case():
    target = tokenizers.train_tokenizer(
        Corpus.from_lines(["It is in Istanbul"] * 50), like=pico.wordpiece(), vocab_size=150
    )
    assert normaliser_of(target)("ISTANBUL") == "istanbul"


def test_a_text_without_marks_has_the_layout_of_the_source_tokenizer():
    like = pico.wordpiece()
    target = tokenizers.train_tokenizer(Corpus.from_lines(["Ein schöner Tag im Mai"] * 50), like=like, vocab_size=150)
    parts = [json.loads(each.backend_tokenizer.to_str()) for each in (like, target)]
    for name in ("normalizer", "pre_tokenizer"):
        assert parts[0][name] == parts[1][name]


def test_a_tokenizer_with_dropout_encodes_a_text_always_alike(tmp_path, caplog):
    pico.saved("gpt2", tmp_path)
    file = tmp_path / "tokenizer.json"
    state = json.loads(file.read_text())
    file.write_text(json.dumps({**state, "model": {**state["model"], "dropout": 0.5}}))
    tokenizer = load_tokenizer(tmp_path)
    text = "\n".join(pico.sentences(20))
    expected = pico.pair("gpt2")[1](text).input_ids
    assert all(tokenizer(text).input_ids == expected for _ in range(3))
    assert "uses BPE dropout (dropout = 0.5)" in caplog.text
    assert '"dropout":null' in tokenizer.backend_tokenizer.to_str()
