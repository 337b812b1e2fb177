"""Every trained parameter is in one group: inner matrices by Muon, embeddings and the rest by AdamW."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM

from relexify.errors import InputError
from relexify.training.engine.freezing import freeze_all_but
from relexify.training.engine.optimisers.groups import parameter_groups
from relexify.training.options import Training
from relexify.training.rates import Rates
from relexify.training.trainable import check_stages
from tests import pico

RATES = Rates(inner=8e-3, embeddings=3e-3, others=1e-2)
FAMILIES = ["llama tied", "llama untied", "gpt2", "bert", "modernbert"]


def grouped(model: Any) -> tuple[list[dict[str, Any]], dict[str, dict[str, Any]]]:
    """The groups, and the group of every parameter by name."""
    groups = parameter_groups(model, RATES, 0.1)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    found = [names[id(parameter)] for group in groups for parameter in group["params"]]
    assert len(found) == len(set(found)), "a parameter is in two groups"
    return groups, {names[id(parameter)]: group for group in groups for parameter in group["params"]}


@pytest.fixture(params=FAMILIES)
def model(request) -> Any:
    return pico.pair(request.param)[0]


def test_no_trained_parameter_is_left_out_and_matrices_come_first(model):
    groups, by_name = grouped(model)
    assert set(by_name) == {name for name, _ in model.named_parameters()}
    is_muon = [group.get("muon", False) for group in groups]
    assert is_muon == sorted(is_muon, reverse=True)
    assert is_muon[0], "the rate in the log is that of the first group"


def test_embedding_and_head_have_a_rate_of_their_own(model):
    _, by_name = grouped(model)
    lexical = {id(model.get_input_embeddings().weight), id(model.get_output_embeddings().weight)}
    if model.get_output_embeddings().bias is not None:
        lexical.add(id(model.get_output_embeddings().bias))
    for name, parameter in model.named_parameters():
        group = by_name[name]
        assert (group["lr"] == RATES.embeddings) == (id(parameter) in lexical), name
        if id(parameter) in lexical:
            assert not group.get("muon")


def test_matrices_inside_are_trained_by_muon_and_nothing_else_is(model):
    _, by_name = grouped(model)
    layers = {
        name for name, part in model.named_modules() if isinstance(part, nn.Linear) or "Conv1D" in str(type(part))
    }
    head = model.get_output_embeddings().weight
    for name, parameter in model.named_parameters():
        is_inner = name.endswith(".weight") and name.removesuffix(".weight") in layers and parameter is not head
        assert by_name[name].get("muon", False) == is_inner, name
        if not is_inner and by_name[name]["lr"] != RATES.embeddings:
            assert by_name[name]["lr"] == RATES.others


def test_biases_and_norms_do_not_decay(model):
    _, by_name = grouped(model)
    for name, parameter in model.named_parameters():
        assert by_name[name]["weight_decay"] == (0.1 if parameter.ndim > 1 else 0.0), name


def test_position_embeddings_are_not_orthogonalised():
    _, by_name = grouped(pico.pair("bert")[0])
    group = by_name["bert.embeddings.position_embeddings.weight"]
    assert (group.get("muon", False), group["lr"], group["weight_decay"]) == (False, RATES.others, 0.1)


def test_query_key_and_value_in_one_weight_are_three_matrices():
    _, by_name = grouped(pico.pair("gpt2")[0])
    layouts = {
        name.rpartition(".h.0.")[2]: (group["transposed"], group["parts"])
        for name, group in by_name.items()
        if group.get("muon")
    }
    assert layouts["attn.c_attn.weight"] == (True, 3)
    assert layouts["attn.c_proj.weight"] == (True, 1)
    assert layouts["mlp.c_fc.weight"] == (True, 1)
    _, by_name = grouped(pico.pair("modernbert")[0])
    fused = [group for name, group in by_name.items() if name.endswith("Wqkv.weight")]
    assert fused
    assert all((group["transposed"], group["parts"]) == (False, 3) for group in fused)


def test_experts_are_batches_of_matrices_and_thin_filters_are_not():
    model = pico.pair("llama tied")[0]
    layer = model.model.layers[0]
    layer.experts = nn.Parameter(torch.randn(3, 4, 5))
    layer.filters = nn.Parameter(torch.randn(8, 1, 4))
    _, by_name = grouped(model)
    assert by_name["model.layers.0.experts"]["muon"]
    assert not by_name["model.layers.0.filters"].get("muon")


def test_frozen_parameters_are_in_no_group():
    model = pico.pair("llama untied")[0]
    freeze_all_but(model, "embeddings")
    groups, by_name = grouped(model)
    assert set(by_name) == {"model.embed_tokens.weight", "lm_head.weight"}
    assert not any(group.get("muon") for group in groups)


def test_a_model_whose_vocabulary_is_not_known_is_rejected_before_training():
    model = LlamaForCausalLM(
        LlamaConfig(vocab_size=32, hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2)
    )
    check_stages(model, Training(plan="direct"))
    with pytest.raises(InputError, match=r"belong to the vocabulary .*gate_proj.*: choose the plan direct"):
        check_stages(model, Training())


def test_stacked_biases_of_experts_are_no_matrices():
    model = nn.Module()
    model.experts = nn.Module()
    model.experts.up_proj = nn.Parameter(torch.zeros(4, 8, 16))
    model.experts.up_proj_bias = nn.Parameter(torch.zeros(4, 16))
    model.lexical_parameter_names = set
    inner, others = parameter_groups(model, RATES, 0.1)
    assert [tuple(each.shape) for each in inner["params"]] == [(4, 8, 16)]
    assert (others["weight_decay"], others["lr"]) == (0.0, RATES.others)
