"""The parameters that a stage trains, on a tiny real model of every family."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from relexify.errors import InputError
from relexify.pretrained.parameters.lexical import lexical_axes
from relexify.training.engine.freezing import freeze_all_but, trained_names
from tests import pico

families = pytest.mark.parametrize("family", list(pico.FAMILIES))


def names(model: Any) -> set[str]:
    return {name for name, _ in model.named_parameters(remove_duplicate=False)}


@families
def test_embeddings_are_all_that_has_one_entry_a_token(family):
    model, tokenizer = pico.pair(family)
    parameters = dict(model.named_parameters(remove_duplicate=False))
    found = trained_names(model, "embeddings")
    assert found == set(lexical_axes(model)) & set(parameters)
    assert found == {name for name, each in parameters.items() if each.shape[0] == len(tokenizer)}


@families
def test_inner_and_embeddings_are_everything_and_share_nothing(family):
    model, _ = pico.pair(family)
    inner, embeddings = trained_names(model, "inner"), trained_names(model, "embeddings")
    assert inner
    assert embeddings
    assert not inner & embeddings
    assert inner | embeddings == names(model) == trained_names(model, "everything")


@families
@pytest.mark.parametrize("trains", ["everything", "embeddings", "inner"])
def test_gradients_reach_exactly_the_trained_parameters(family, trains):
    model, _ = pico.pair(family)
    listed = freeze_all_but(model, trains)
    chosen = trained_names(model, trains)
    for name, parameter in model.named_parameters(remove_duplicate=False):
        assert parameter.requires_grad == (name in chosen), name
    assert listed == sorted(name for name, _ in model.named_parameters() if name in chosen)


def test_lexical_names_of_known_models():
    gpt2, untied = pico.pair("gpt2")[0], pico.pair("llama untied")[0]
    assert trained_names(gpt2, "embeddings") == {"transformer.wte.weight", "lm_head.weight"}
    assert trained_names(untied, "embeddings") == {"model.embed_tokens.weight", "lm_head.weight"}
    assert "bert.embeddings.position_embeddings.weight" in trained_names(pico.pair("bert")[0], "inner")
    assert "cls.predictions.bias" in trained_names(pico.pair("bert")[0], "embeddings")


@pytest.mark.parametrize("trains", ["lm_head", "wte"])
def test_a_tied_head_is_trained_under_either_name(trains):
    model, _ = pico.pair("gpt2")
    assert freeze_all_but(model, trains) == ["transformer.wte.weight"]
    assert model.lm_head.weight.requires_grad
    assert sum(each.requires_grad for each in model.parameters()) == 1


def test_an_untied_head_is_trained_by_itself():
    model, _ = pico.pair("llama untied")
    assert freeze_all_but(model, "lm_head") == ["lm_head.weight"]
    assert not model.get_input_embeddings().weight.requires_grad


def test_a_regular_expression_is_searched_for_in_names():
    model, _ = pico.pair("gpt2")
    expected = {name for name in names(model) if ".h.1." in name and name.endswith("bias")}
    assert len(expected) == 6
    assert trained_names(model, r"\.h\.1\..*bias$") == expected


def test_an_invalid_expression_is_rejected():
    model, _ = pico.pair("gpt2")
    with pytest.raises(InputError, match=r"no parameter's name contains 'layer9': .* such as lm_head.weight"):
        freeze_all_but(model, "layer9")
    assert all(each.requires_grad for each in model.parameters()), "the rejected stage froze the model"


def test_the_next_stage_unfreezes_parameters_of_the_last_one():
    model, _ = pico.pair("gpt2")
    freeze_all_but(model, "embeddings")
    freeze_all_but(model, "everything")
    assert all(each.requires_grad for each in model.parameters())


@families
def test_frozen_parameters_stay_bit_equal_through_a_step(family):
    model, _ = pico.pair(family)
    freeze_all_but(model, "embeddings")
    before = {name: each.detach().clone() for name, each in model.named_parameters()}
    ids = torch.arange(5, 15)[None]
    model(input_ids=ids, labels=ids).loss.backward()
    torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.1).step()
    chosen = trained_names(model, "embeddings")
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, before[name]) == (name not in chosen), name
