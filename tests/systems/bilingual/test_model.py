"""Two languages, one encoder: what each says is what it would say alone, before and after it was written down."""

from __future__ import annotations

import copy
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, AutoModelForMaskedLM, AutoTokenizer

import relexify as rx
from relexify.errors import GraftError, InputError, VocabularyError
from relexify.pretrained.languages import language_folder, load_for_language, needs_language
from relexify.systems.bilingual.folder import BilingualBundle
from relexify.systems.bilingual.model import BilingualModel
from relexify.systems.compression.compress import compressed
from relexify.systems.compression.options import Compression
from tests import pico

FAMILIES = ("gpt2", "llama tied", "llama untied", "gemma", "bert", "roberta", "modernbert")
LANGUAGES = ("en", "xx")
TOKENS = torch.arange(5, 29).reshape(2, 12)


@cache
def pairs(family: str) -> tuple[Any, Any, Any, Any]:
    """An English model and its graft, each with its tokenizer; nobody changes them."""
    model, tokenizer = pico.pair(family)
    lines = pico.sentences(400, words=pico.foreign_words())
    target = pico.FAMILIES[family][0](lines)
    grafted = rx.graft(model, target, rx.methods.fvt(tokenizer, target), seed=1).model.eval()
    with torch.no_grad():  # as after a stage that trains the embeddings alone
        for name, parameter in grafted.named_parameters():
            if parameter.shape[0] == len(target):
                noise = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(len(name)))
                parameter.add_(noise, alpha=0.01)
    return model, tokenizer, grafted, target


def bilingual(family: str) -> BilingualBundle:
    model, tokenizer, grafted, target = pairs(family)
    return BilingualBundle(
        BilingualModel.join(model, grafted, LANGUAGES), dict(zip(LANGUAGES, (tokenizer, target), strict=True))
    )


@torch.no_grad()
def logits(model: Any, **options: Any) -> torch.Tensor:
    found: torch.Tensor = model(input_ids=TOKENS, attention_mask=torch.ones_like(TOKENS), **options).logits
    return found


@pytest.mark.parametrize("family", FAMILIES)
def test_each_language_gives_the_logits_of_its_own_model_bit_for_bit(family):
    both = bilingual(family)
    model, _, grafted, _ = pairs(family)
    assert torch.equal(logits(both.model, language="en"), logits(model))
    assert torch.equal(logits(both.model, language="xx"), logits(grafted))
    assert not torch.equal(logits(model)[..., :50], logits(grafted)[..., :50])


@pytest.mark.parametrize("family", FAMILIES)
def test_what_is_written_loads_bit_for_bit_with_one_encoder_and_is_tied_as_before(family, tmp_path):
    both = bilingual(family)
    with torch.no_grad():
        for index, parameter in enumerate(both.model.parameters()):  # nothing may be what initialisation makes
            parameter.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(index)), alpha=0.01)
    both.save(tmp_path / "both")
    loaded = BilingualBundle.load(tmp_path / "both")
    before, after = both.model.state_dict(), loaded.model.state_dict()
    assert before.keys() == after.keys()
    assert not [name for name in before if not torch.equal(before[name], after[name])]
    names = [dict(each.model.named_parameters()).keys() for each in (both, loaded)]
    assert names[0] == names[1], "something is tied in one and not in the other"
    for language in LANGUAGES:
        assert torch.equal(logits(loaded.model, language=language), logits(both.model, language=language))
    inner = [name for name in loaded.model.source.state_dict() if name not in loaded.model.config.lexical]
    ours, theirs = (getattr(loaded.model, member).state_dict() for member in ("source", "target"))
    assert all(ours[name].data_ptr() == theirs[name].data_ptr() for name in inner)
    assert all(ours[name].data_ptr() != theirs[name].data_ptr() for name in loaded.model.config.lexical)


def test_the_head_of_a_masked_language_model_has_one_transform_and_two_biases(tmp_path):
    bilingual("bert").save(tmp_path / "both")
    names = load_file(tmp_path / "both" / "model.safetensors").keys()
    assert {name for name in names if name.startswith("target.")} == {
        "target.bert.embeddings.word_embeddings.weight",
        "target.cls.predictions.bias",
    }
    assert "source.cls.predictions.transform.dense.weight" in names
    model = BilingualBundle.load(tmp_path / "both").model
    assert model.source.cls.predictions.transform is model.target.cls.predictions.transform
    assert model.target.cls.predictions.decoder.weight is model.target.bert.embeddings.word_embeddings.weight
    assert model.target.cls.predictions.decoder.bias is model.target.cls.predictions.bias


def test_untied_heads_stay_untied(tmp_path):
    bilingual("llama untied").save(tmp_path / "both")
    model = BilingualBundle.load(tmp_path / "both").model
    for member in (model.source, model.target):
        assert member.lm_head.weight is not member.model.embed_tokens.weight


def test_tokenizers_and_names_come_back(tmp_path):
    both = bilingual("gpt2")
    both.save(tmp_path / "both")
    loaded = BilingualBundle.load(tmp_path / "both")
    assert loaded.model.languages == LANGUAGES
    for language in LANGUAGES:
        text = " ".join(pico.sentences(3))
        assert loaded.tokenizers[language](text).input_ids == both.tokenizers[language](text).input_ids
    assert loaded.model.target.generation_config.eos_token_id == both.tokenizers["xx"].eos_token_id


def test_transformers_finds_the_classes_by_the_type_of_the_model(tmp_path):
    bilingual("gpt2").save(tmp_path / "both")
    assert AutoConfig.from_pretrained(tmp_path / "both").languages == list(LANGUAGES)
    assert isinstance(AutoModel.from_pretrained(tmp_path / "both"), BilingualModel)


def test_the_dtype_is_kept(tmp_path):
    model, tokenizer, grafted, target = pairs("gpt2")
    halves = [copy.deepcopy(each).to(torch.bfloat16) for each in (model, grafted)]
    both = BilingualBundle(BilingualModel.join(*halves, LANGUAGES), {"en": tokenizer, "xx": target})
    both.save(tmp_path / "both")
    loaded = BilingualBundle.load(tmp_path / "both").model
    assert {parameter.dtype for parameter in loaded.parameters()} == {torch.bfloat16}
    assert all(torch.equal(loaded.target.state_dict()[name], each) for name, each in halves[1].state_dict().items())


@pytest.mark.parametrize("family", FAMILIES)
def test_an_exported_language_is_an_ordinary_model_with_the_same_logits(family, tmp_path):
    both = bilingual(family)
    both.save(tmp_path / "both")
    loader = AutoModelForMaskedLM if family in ("bert", "roberta", "modernbert") else AutoModelForCausalLM
    for language in LANGUAGES:
        folder = rx.export(tmp_path / "both", language, tmp_path / language)
        alone, loaded = loader.from_pretrained(folder, output_loading_info=True)
        assert not loaded["missing_keys"]
        assert not loaded["unexpected_keys"]
        assert type(alone) is type(pairs(family)[0])
        assert torch.equal(logits(alone), logits(both.model, language=language))
        tokenizer = AutoTokenizer.from_pretrained(folder)
        assert tokenizer.get_vocab() == both.tokenizers[language].get_vocab()
        assert alone.config.vocab_size == alone.get_input_embeddings().weight.shape[0] == len(tokenizer)


def test_an_exported_model_needs_nothing_of_relexify(tmp_path):
    both = bilingual("gpt2").save(tmp_path / "both")
    folder = rx.export(both, "xx", tmp_path / "xx")
    config = json.loads((folder / "config.json").read_text())
    assert (config["model_type"], config["architectures"]) == ("gpt2", ["GPT2LMHeadModel"])
    names = [path for path in folder.iterdir() if path.name != "relexify.json" and b"relexify" in path.read_bytes()]
    assert not names


@pytest.mark.parametrize("family", ["bert", "llama untied"])
def test_gradients_reach_both_lexicons_and_the_one_encoder(family):
    model = bilingual(family).model
    for language in LANGUAGES:
        model(input_ids=TOKENS, language=language).logits.square().mean().backward()
    names = dict(model.named_parameters())
    lacking = [name for name, each in names.items() if each.grad is None or not each.grad.any()]
    assert not [name for name in lacking if "pooler" not in name and "key.bias" not in name]
    model.zero_grad()
    model(input_ids=TOKENS, language="xx").logits.square().mean().backward()
    touched = {name for name, each in names.items() if each.grad is not None and each.grad.any()}
    assert not {f"source.{name}" for name in model.config.lexical} & touched
    assert {name for name in names if name.startswith("target.")} <= touched


def test_joining_does_not_change_the_two_models():
    model, _, grafted, _ = pairs("bert")
    before = [copy.deepcopy(each.state_dict()) for each in (model, grafted)]
    both = bilingual("bert").model
    with torch.no_grad():
        for parameter in both.parameters():
            parameter.zero_()
    for kept, each in zip(before, (model, grafted), strict=True):
        assert all(torch.equal(kept[name], tensor) for name, tensor in each.state_dict().items())


def test_encoders_that_differ_are_reported_and_the_first_is_used(caplog):
    model, _, grafted, _ = pairs("gpt2")
    other = copy.deepcopy(grafted)
    with torch.no_grad():
        other.transformer.h[0].mlp.c_fc.weight += 1
    both = BilingualModel.join(model, other, LANGUAGES)
    assert "differ in 1 of" in caplog.text
    assert torch.equal(logits(both, language="xx"), logits(grafted))


def test_models_of_other_shapes_and_families_are_rejected():
    model, _, grafted, _ = pairs("gpt2")
    config = copy.deepcopy(grafted.config)
    config.n_layer = 3
    with pytest.raises(GraftError, match=r"do not share an encoder: transformer\.h\.2"):
        BilingualModel.join(model, type(grafted)(config), LANGUAGES)
    with pytest.raises(GraftError, match="GPT2LMHeadModel and a LlamaForCausalLM"):
        BilingualModel.join(model, pairs("llama tied")[0], LANGUAGES)
    with pytest.raises(GraftError, match="neither a decoder nor a masked"):
        BilingualModel.join(pico.pair("t5")[0], pico.pair("t5")[0], LANGUAGES)
    small, _ = compressed(model, Compression(k=2, codes="digits", init="random"))
    with pytest.raises(GraftError, match="compressed"):
        BilingualModel.join(small, small, LANGUAGES)
    moved = copy.deepcopy(pairs("roberta")[2])
    moved.config.pad_token_id = 0
    with pytest.raises(GraftError, match="positions are counted from the padding id"):
        BilingualModel.join(pairs("roberta")[0], moved, LANGUAGES)


@pytest.mark.parametrize(
    ("languages", "words"),
    [(("en", "EN"), "both languages are called"), (("en", "a/b"), "cannot name"), (("en",), "name two")],
)
def test_invalid_names_of_languages_are_rejected(languages, words):
    model, _, grafted, _ = pairs("gpt2")
    with pytest.raises(InputError, match=words):
        BilingualModel.join(model, grafted, languages)


def test_an_unknown_or_missing_language_is_rejected():
    model = bilingual("gpt2").model
    with pytest.raises(InputError, match="does not have the language 'de': give 'en' or 'xx'"):
        model(input_ids=TOKENS, language="de")
    with pytest.raises(InputError, match="no language is given"):
        model(input_ids=TOKENS)


def test_load_model_rejects_a_bilingual_folder(tmp_path):
    bilingual("gpt2").save(tmp_path / "both")
    for load in (rx.load_model, rx.load_tokenizer):
        with pytest.raises(InputError, match="is a bilingual model: choose a language"):
            load(tmp_path / "both")


def test_one_language_is_loaded_from_ordinary_and_bilingual_folders(tmp_path):
    both = bilingual("gpt2")
    both.save(tmp_path / "both")
    rx.export(tmp_path / "both", "xx", tmp_path / "xx")
    assert needs_language(tmp_path / "both")
    assert not needs_language(tmp_path / "xx")
    one, tokenizer = load_for_language(tmp_path / "both", "xx")
    other, _ = load_for_language(tmp_path / "xx")
    assert torch.equal(logits(one), logits(other))
    assert len(tokenizer) == len(both.tokenizers["xx"])
    with pytest.raises(InputError, match="not a bilingual model"):
        load_for_language(tmp_path / "xx", "xx")
    with language_folder(tmp_path / "both", "en") as folder:
        assert torch.equal(logits(rx.load_model(folder)), logits(both.model, language="en"))
    assert not Path(folder).exists()


def test_damaged_folders_are_rejected(tmp_path):
    bilingual("gpt2").save(tmp_path / "both")
    with pytest.raises(InputError, match="holds no bilingual model"):
        BilingualBundle.load(tmp_path)
    config = json.loads((tmp_path / "both" / "config.json").read_text())
    config["target"]["n_layer"] = config["source"]["n_layer"] = 3
    (tmp_path / "both" / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match="lacks"):
        BilingualBundle.load(tmp_path / "both")


def test_a_tokenizer_of_another_model_is_rejected(tmp_path):
    model, tokenizer, grafted, _ = pairs("gpt2")
    for name, each in (("en", model), ("xx", grafted)):
        each.save_pretrained(tmp_path / name)
        tokenizer.save_pretrained(tmp_path / name)
    pico.byte_level(size=450).save_pretrained(tmp_path / "xx")
    with pytest.raises(VocabularyError, match="do not belong together"):
        BilingualBundle.join(tmp_path / "en", tmp_path / "xx", LANGUAGES)
