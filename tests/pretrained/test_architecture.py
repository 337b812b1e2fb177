"""Facts about architectures, checked on a tiny real model of every family."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from transformers import AutoConfig, XLMConfig, XLMWithLMHeadModel

from relexify.grafting import is_tied
from relexify.pretrained.architecture import (
    architecture_in_config,
    architecture_of,
    declares_tied_embeddings,
    encoder_frame,
    hidden_width,
    initial_deviation,
    inner_encoder,
    layer_sizes,
    position_padding,
    saved_class,
    token_types,
    tokenizer_frame,
    usable_length,
    vocabulary_rows,
)
from tests import pico

ARCHITECTURES = {"bert": "encoder", "roberta": "encoder", "modernbert": "encoder"} | dict.fromkeys(
    ("t5", "bart"), "encoder-decoder"
)


@pytest.mark.parametrize("family", list(pico.FAMILIES))
def test_the_architecture_of_every_family_is_known(family):
    model, _ = pico.pair(family)
    assert architecture_of(model) == ARCHITECTURES.get(family, "decoder")
    assert architecture_in_config(model.config) == ARCHITECTURES.get(family, "decoder")
    if family != "t5":  # its base model is itself
        assert architecture_of(model.base_model) == "headless"


@pytest.mark.parametrize(("causal", "expected"), [(False, "encoder"), (True, "decoder")])
def test_an_xlm_predicts_what_its_config_says(causal, expected):
    model = XLMWithLMHeadModel(XLMConfig(emb_dim=16, n_layers=1, n_heads=2, vocab_size=20, causal=causal))
    assert architecture_of(model) == architecture_in_config(model.config) == expected
    assert architecture_of(model.base_model) == "headless"


def test_a_config_that_names_no_class_is_judged_by_its_type():
    assert architecture_in_config(AutoConfig.for_model("bert")) == "encoder"
    assert architecture_in_config(AutoConfig.for_model("bert", is_decoder=True)) == "decoder"
    assert architecture_in_config(AutoConfig.for_model("llama")) == "decoder"


@pytest.mark.parametrize("family", list(pico.FAMILIES))
def test_the_inner_encoder_gives_hidden_states(family):
    model, _ = pico.pair(family)
    with torch.no_grad():
        output = inner_encoder(model)(input_ids=torch.tensor([[5, 6, 7]]))
    assert output.last_hidden_state.shape[:2] == (1, 3)


@pytest.mark.parametrize(("family", "padding"), [("roberta", 1), ("bert", None), ("gpt2", None), ("t5", None)])
def test_only_roberta_counts_positions_from_its_padding_id(family, padding):
    assert position_padding(pico.pair(family)[0]) == padding


@pytest.mark.parametrize(
    ("family", "length"),
    [("gpt2", 64), ("llama tied", 64), ("bert", 64), ("roberta", 64), ("modernbert", 64), ("t5", None)],
)
def test_the_usable_length_of_every_family(family, length):
    model, _ = pico.pair(family)
    assert usable_length(model) == length


@pytest.mark.parametrize("family", ["gpt2", "bert", "roberta"])
def test_one_token_more_than_the_usable_length_is_an_error(family):
    model, _ = pico.pair(family)
    longest = usable_length(model)
    assert model(input_ids=torch.full((1, longest), 7)).logits.isfinite().all()
    with pytest.raises((IndexError, RuntimeError)):
        model(input_ids=torch.full((1, longest + 1), 7))


@pytest.mark.parametrize(
    ("make", "frame"),
    [
        (pico.wordpiece, (["[CLS]"], ["[SEP]"])),
        (pico.roberta_tokenizer, (["<s>"], ["</s>"])),
        (pico.unigram, ([], ["</s>"])),
        (pico.byte_fallback, (["<s>"], ["</s>"])),
    ],
)
def test_an_encoder_reads_the_special_tokens_that_it_was_trained_with(make: Callable[[], Any], frame):
    tokenizer = make()
    assert encoder_frame(tokenizer) == tuple(tokenizer.convert_tokens_to_ids(part) for part in frame)


@pytest.mark.parametrize("family", ["t5", "gpt2", "bert", "bart"])
def test_the_initial_deviation_is_that_of_an_untrained_model(family):
    model, _ = pico.pair(family)
    fresh = type(model)(model.config).get_input_embeddings().weight
    assert initial_deviation(model.config) == pytest.approx(float(fresh.std()), rel=0.1)


@pytest.mark.parametrize(("make", "frame"), [(pico.wordpiece, (["[CLS]"], ["[SEP]"])), (pico.byte_level, ([], []))])
def test_a_tokenizer_adds_its_own_special_tokens(make: Callable[[], Any], frame):
    tokenizer = make()
    expected = tuple(tokenizer.convert_tokens_to_ids(part) for part in frame)
    assert tokenizer_frame(tokenizer.backend_tokenizer) == expected


def test_the_sizes_of_layers_are_those_of_their_matrices():
    model, _ = pico.pair("llama tied")
    sizes, (layer, *_) = layer_sizes(model), model.model.layers
    assert sizes.layers == len(model.model.layers)
    assert sizes.width == hidden_width(model) == layer.self_attn.q_proj.in_features
    assert sizes.heads * sizes.head_width == layer.self_attn.q_proj.out_features
    assert sizes.key_heads * sizes.head_width == layer.self_attn.k_proj.out_features
    assert sizes.experts is None


@pytest.mark.parametrize(("family", "types"), [("bert", 2), ("modernbert", 0)])
def test_the_token_types_are_the_rows_of_their_embedding(family, types):
    model, _ = pico.pair(family)
    assert token_types(model.config) == types
    rows = [module.num_embeddings for name, module in model.named_modules() if name.endswith("token_type_embeddings")]
    assert rows == ([types] if types else [])


def test_what_a_config_says_of_class_vocabulary_and_tying_is_true_of_every_family():
    for family in pico.FAMILIES:
        model, _ = pico.pair(family)
        assert vocabulary_rows(model.config) == model.get_input_embeddings().num_embeddings
        assert declares_tied_embeddings(model.config) == is_tied(model)
        model.config.architectures = [type(model).__name__]
        assert saved_class(model.config) == type(model).__name__
    assert saved_class(AutoConfig.for_model("bert")) == "bert"
