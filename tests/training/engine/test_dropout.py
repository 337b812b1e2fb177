"""Training without dropout: the model computes as in evaluation, and its config keeps the rates."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from typing import Any

import pytest
import torch
from transformers import (
    BertConfig,
    BertForMaskedLM,
    FalconConfig,
    FalconForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    OPTConfig,
    OPTForCausalLM,
    XLMConfig,
    XLMWithLMHeadModel,
)

from relexify.training.engine.dropout import without_dropout
from tests.training.runs import TRAINING, tensors

IDS = torch.arange(24).reshape(2, 12)
MODELS = {
    "modules": lambda: GPT2LMHeadModel(GPT2Config(vocab_size=24, n_embd=8, n_layer=1, n_head=2)),
    "attention": lambda: BertForMaskedLM(
        BertConfig(
            vocab_size=24,
            hidden_size=8,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=8,
            hidden_dropout_prob=0.0,
        )
    ),
    "numbers": lambda: OPTForCausalLM(
        OPTConfig(vocab_size=24, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, ffn_dim=8, layerdrop=0.5)
    ),
    "config": lambda: FalconForCausalLM(
        FalconConfig(
            vocab_size=24,
            hidden_size=8,
            num_hidden_layers=1,
            num_attention_heads=2,
            hidden_dropout=0.3,
            attention_dropout=0.3,
        )
    ),
    "both": lambda: XLMWithLMHeadModel(XLMConfig(vocab_size=24, emb_dim=8, n_layers=1, n_heads=2)),
}
"""Models by where their dropout rates are."""


def logits(model: Any) -> torch.Tensor:
    with torch.no_grad():
        return model(IDS).logits


@pytest.mark.parametrize("where", MODELS)
def test_without_dropout_training_mode_computes_what_evaluation_mode_does(where):
    model = MODELS[where]()
    expected = logits(model.eval())
    model.train()
    for _ in range(3):  # a layer may be left out in one of two passes
        with without_dropout(model):
            assert torch.equal(logits(model), expected)
    assert any(not torch.equal(logits(model), expected) for _ in range(10))


def test_rates_are_restored_after_an_error():
    model = MODELS["modules"]().train()
    with pytest.raises(KeyboardInterrupt), without_dropout(model):
        raise KeyboardInterrupt
    assert not torch.equal(logits(model), logits(model))


def test_a_training_without_dropout_is_that_of_a_model_without_it(run_of):
    run = run_of("bert")
    run = replace(run, source=shutil.copytree(run.source, run.folder / "source"))  # other tests share the original
    run.train(TRAINING, name="with")
    run.train(replace(TRAINING, dropout=False), name="without")
    file = run.source / "config.json"
    config = json.loads(file.read_text())
    assert config["hidden_dropout_prob"] == config["attention_probs_dropout_prob"] == 0.1
    assert json.loads((run.output("without") / "config.json").read_text())["hidden_dropout_prob"] == 0.1
    file.write_text(json.dumps(config | {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}))
    run.train(TRAINING, name="none")
    found = {name: tensors(run.output(name)) for name in ("with", "without", "none")}
    weights = "bert.embeddings.word_embeddings.weight"
    assert all(torch.equal(found["without"][name], value) for name, value in found["none"].items())
    assert not torch.equal(found["without"][weights], found["with"][weights])
