"""Two models share an encoder if all but their vocabularies is built alike, and are reported if its values differ."""

from __future__ import annotations

import copy

import pytest
import torch
from transformers import AutoModelForSequenceClassification

from relexify.errors import GraftError
from relexify.pretrained.parameters.lexical import lexical_axes, resize
from relexify.pretrained.parameters.same_encoder import check_same_encoder, warn_if_trained_apart
from tests import pico


@pytest.mark.parametrize("family", ["gpt2", "llama untied", "bert", "roberta", "modernbert"])
def test_vocabularies_and_values_may_differ(family):
    model, _ = pico.pair(family)
    other = copy.deepcopy(model)
    resize(other, 777)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.add_(1)
    check_same_encoder(model, other, lexical_axes(model))


def test_the_pooler_of_a_classifier_is_no_part_of_its_encoder(caplog):
    model, _ = pico.pair("bert")
    encoder = model.base_model
    classifier = AutoModelForSequenceClassification.from_config(model.config)
    assert any("pooler" in name for name in classifier.base_model.state_dict())
    check_same_encoder(classifier.base_model, encoder, lexical_axes(encoder))
    classifier.base_model.load_state_dict(encoder.state_dict(), strict=False)
    warn_if_trained_apart(classifier.base_model, encoder, lexical_axes(encoder))
    assert not caplog.text


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"intermediate_size": 48}, r"intermediate\.dense\.bias is \(\d+,\) in en, but \(48,\) in xx"),
        ({"num_hidden_layers": 1}, r"encoder\.layer\.1\..* in en, but missing in xx"),
        ({"num_hidden_layers": 3}, r"encoder\.layer\.2\..* is missing in en, but \(.*\) in xx"),
        ({"hidden_size": 64, "intermediate_size": 64}, r"do not share an encoder"),
    ],
)
def test_other_shapes_are_rejected_by_name(change, words):
    model, _ = pico.pair("bert")
    config = copy.deepcopy(model.config)
    for name, value in change.items():
        setattr(config, name, value)
    with pytest.raises(GraftError, match=words):
        check_same_encoder(model, type(model)(config), lexical_axes(model), names=("en", "xx"))


def test_lexical_parameters_must_have_the_same_width():
    model, _ = pico.pair("gpt2")
    other = copy.deepcopy(model)
    other.transformer.wte = torch.nn.Embedding(9, 5)
    with pytest.raises(GraftError, match=r"wte\.weight is \(\d+, \d+\) in one model, but \(9, 5\) in the other"):
        check_same_encoder(model, other, {"transformer.wte.weight", "lm_head.weight"})


def test_positions_must_be_counted_from_the_same_padding_id():
    model, _ = pico.pair("roberta")
    other = copy.deepcopy(model)
    other.config.pad_token_id = 3
    with pytest.raises(GraftError, match="which is 1 in one model, but 3 in the other"):
        check_same_encoder(model, other, lexical_axes(model))
    bert, _ = pico.pair("bert")  # counts positions from 0
    moved = copy.deepcopy(bert)
    moved.config.pad_token_id = 3
    check_same_encoder(bert, moved, lexical_axes(bert))


def test_other_values_are_reported(caplog):
    model, _ = pico.pair("llama untied")
    other, lexical = copy.deepcopy(model), lexical_axes(model)
    with torch.no_grad():
        other.get_input_embeddings().weight.add_(1)
    warn_if_trained_apart(model, other, lexical)
    assert not caplog.text
    with torch.no_grad():
        other.model.layers[0].mlp.up_proj.weight.add_(1)
    warn_if_trained_apart(model, other, lexical)
    assert f"differ in 1 of {len(model.state_dict().keys() - lexical.keys())} parameters" in caplog.text
