"""A model that gives its loss: the same loss as from its logits, and the same model afterwards."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy
from transformers import LlamaConfig, LlamaForCausalLM

from relexify.pretrained.architecture import IGNORED
from relexify.systems.compression import embedding as sub_embedding
from relexify.systems.compression.compress import compressed
from relexify.systems.compression.options import Compression
from relexify.training import protocol
from relexify.training.loss.forward import loss_forward, repeated_blocks
from tests import pico

FAMILIES = [family for family in pico.FAMILIES if family not in ("t5", "bart")]
LAYERS = {
    "gpt2": "transformer.h",
    "llama tied": "model.layers",
    "llama untied": "model.layers",
    "gemma": "model.layers",
    "bert": "bert.encoder.layer",
    "roberta": "roberta.encoder.layer",
    "modernbert": "model.layers",
}
families = pytest.mark.parametrize("family", FAMILIES)
PROTOCOLS = [each for each in vars(protocol).values() if getattr(each, "_is_runtime_protocol", False)]


@pytest.mark.parametrize("tested", PROTOCOLS, ids=lambda tested: tested.__name__)
def test_protocols_have_methods_alone_because_python_3_12_does_not_find_the_parameters_of_a_module(tested):
    members = {name: value for name, value in vars(tested).items() if not name.startswith("_")}
    assert members
    assert all(inspect.isfunction(value) for value in members.values())
    assert not vars(tested).get("__annotations__")


def batch(model: Any, seed: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens, and labels of which some do not count; none is a token's neighbour on purpose."""
    draw = torch.Generator().manual_seed(seed)
    size = model.get_input_embeddings().weight.shape[0]
    inputs, labels = (torch.randint(5, size, (3, 12), generator=draw) for _ in range(2))
    labels[torch.rand(3, 12, generator=draw) < 0.4] = IGNORED
    return inputs, labels


def from_logits(model: Any, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    logits = model(input_ids=inputs).logits
    return cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORED, reduction="sum")


def gradients(model: Any, loss: torch.Tensor) -> dict[str, torch.Tensor]:
    model.zero_grad()
    loss.backward()
    return {name: each.grad.clone() for name, each in model.named_parameters() if each.grad is not None}


def state(model: Any) -> Any:
    """Everything that the context could leave behind."""
    attributes = {name: sorted(vars(module)) for name, module in model.named_modules()}
    hooks = {name: len(module._forward_hooks) for name, module in model.named_modules()}
    modes = {name: module.training for name, module in model.named_modules()}
    return attributes, hooks, modes, model.config.to_dict(), model.forward


def capped(scale: float = 1.0) -> Any:
    """Gemma 2, whose logits go through a tanh; the larger its head, the more that matters."""
    model, _ = pico.pair("gemma")
    assert model.config.final_logit_softcapping == 30.0
    with torch.no_grad():
        model.get_output_embeddings().weight.mul_(scale)
    return model


def assert_same_loss(model: Any, label_share: float = 1.0) -> None:
    inputs, labels = batch(model)
    expected = from_logits(model, inputs, labels)
    expected_gradients = gradients(model, expected)
    with loss_forward(model, label_share=label_share):
        loss = model(input_ids=inputs, labels=labels)
        found = gradients(model, loss)
    torch.testing.assert_close(loss, expected, rtol=1e-6, atol=1e-6)
    assert found.keys() == expected_gradients.keys()
    for name, gradient in found.items():
        torch.testing.assert_close(gradient, expected_gradients[name], rtol=1e-4, atol=1e-5, msg=name)


@families
def test_loss_and_gradients_are_those_of_the_ordinary_logits(family):
    model, _ = pico.pair(family)
    assert_same_loss(model)


def test_the_codes_of_a_compressed_model_are_read_before_the_steps_and_in_none_of_them(monkeypatch):
    model = compressed(pico.pair("bert")[0], Compression(k=2))[0]
    inputs, labels = batch(model)
    reads, plan = [], sub_embedding.plan_prefixes
    monkeypatch.setattr(sub_embedding, "plan_prefixes", lambda *given: (reads.append(1), plan(*given))[1])
    with loss_forward(model):
        before = len(reads)
        for _ in range(3):
            model(input_ids=inputs, labels=labels).backward()
    assert before > 0
    assert len(reads) == before


@families
def test_a_head_that_works_only_where_there_are_labels_gives_the_same_loss(family):
    assert_same_loss(pico.pair(family)[0], label_share=0.6)


@families
def test_only_a_model_that_caps_its_logits_keeps_them_whole(family, caplog):
    model, _ = pico.pair(family)
    with caplog.at_level("INFO", "relexify"), loss_forward(model):
        assert ("forward" in vars(model.get_output_embeddings())) == (family != "gemma")
    assert ("all logits of a batch" in caplog.text) == (family == "gemma")


@pytest.mark.parametrize("scale", [0.1, 1.0, 100.0])
def test_capped_logits_are_capped_in_the_loss_too_however_small_they_are(scale):
    model = capped(scale)
    assert_same_loss(model)
    with loss_forward(model):
        assert "forward" not in vars(model.get_output_embeddings()), "small logits hid the capping"


def test_the_capping_of_the_test_matters():
    model = capped(100.0)
    inputs, labels = batch(model)
    expected = from_logits(model, inputs, labels)
    model.config.final_logit_softcapping = None
    assert from_logits(model, inputs, labels) > 1.1 * expected
    assert_same_loss(model)


def test_a_padded_batch_hands_its_attention_mask_on():
    model, tokenizer = pico.pair("bert")
    inputs, labels = batch(model)
    mask = torch.ones_like(inputs)
    mask[:, 8:] = 0
    labels[:, 8:] = IGNORED
    expected = from_logits(model, inputs[:, :8], labels[:, :8])
    with loss_forward(model):
        loss = model(
            input_ids=inputs.masked_fill(mask == 0, tokenizer.pad_token_id), labels=labels, attention_mask=mask
        )
    torch.testing.assert_close(loss, expected)


@families
def test_without_gradients_the_loss_is_the_same(family):
    model, _ = pico.pair(family)
    inputs, labels = batch(model)
    with torch.no_grad():
        expected = from_logits(model, inputs, labels)
        with loss_forward(model):
            torch.testing.assert_close(model(input_ids=inputs, labels=labels), expected)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("training", [False, True])
@families
def test_the_model_is_as_before_when_the_context_ends(family, training, compiled):
    model, _ = pico.pair(family)
    inputs, labels = batch(model)
    with torch.no_grad():
        logits = model(input_ids=inputs).logits
    model.train(training)
    before = state(model)
    with loss_forward(model, compiled=compiled, stream=torch.bfloat16):
        assert model.training == training
        assert model.config.to_dict().get("use_cache") in (None, False)
        if not compiled:
            with torch.autocast("cpu", torch.bfloat16), torch.backends.mkldnn.flags(enabled=True):
                model(input_ids=inputs, labels=labels).backward()
    assert state(model) == before
    with torch.no_grad():
        assert torch.equal(model.eval()(input_ids=inputs).logits, logits)


@families
def test_an_exception_leaves_the_model_as_before(family):
    model, _ = pico.pair(family)
    inputs, _labels = batch(model)
    before = state(model)
    with torch.no_grad():
        logits = model(input_ids=inputs).logits
    with pytest.raises(KeyboardInterrupt), loss_forward(model, stream=torch.bfloat16):
        raise KeyboardInterrupt
    assert state(model) == before
    with torch.no_grad():
        assert torch.equal(model(input_ids=inputs).logits, logits)


def test_the_cache_setting_of_the_model_is_restored():
    model, _ = pico.pair("gpt2")
    for setting in (True, False):
        model.config.use_cache = setting
        with loss_forward(model):
            assert model.config.use_cache is False
        assert model.config.use_cache is setting


def test_a_model_can_be_used_again_and_beside_another():
    first, second = pico.pair("gpt2")[0], pico.pair("bert")[0]
    cases = [(model, *batch(model)) for model in (first, second)]
    expected = [from_logits(*case) for case in cases]
    for _ in range(2):
        with loss_forward(first), loss_forward(second):
            losses = [model(input_ids=inputs, labels=labels) for model, inputs, labels in cases]
            torch.testing.assert_close(losses, expected)
        torch.testing.assert_close([from_logits(*case) for case in cases], expected)


def test_embeddings_are_handed_on_in_the_type_of_the_stream():
    model, _ = pico.pair("llama tied")
    inputs, labels = batch(model)
    expected = from_logits(model, inputs, labels)
    seen = []
    watch = repeated_blocks(model)[0].register_forward_hook(lambda module, given, output: seen.append(given[0].dtype))
    with loss_forward(model, stream=torch.bfloat16), torch.autocast("cpu", torch.bfloat16):
        loss = model(input_ids=inputs, labels=labels)
    watch.remove()
    assert seen[-1] == torch.bfloat16
    torch.testing.assert_close(loss, expected, rtol=1e-2, atol=0)


@families
def test_the_blocks_are_the_layers_of_the_model_and_nothing_else(family):
    model, _ = pico.pair(family)
    layers = model.get_submodule(LAYERS[family])
    assert len(layers) == 2
    assert repeated_blocks(model) == list(layers)


def test_lists_inside_a_block_are_not_blocks_of_their_own():
    block = torch.nn.Module()
    block.experts = torch.nn.ModuleList(torch.nn.Linear(2, 2) for _ in range(3))
    other = torch.nn.Module()
    other.experts = torch.nn.ModuleList(torch.nn.Linear(2, 2) for _ in range(3))
    mixed = torch.nn.ModuleList([torch.nn.Linear(2, 2), torch.nn.LayerNorm(2)])
    model = torch.nn.ModuleDict({"layers": torch.nn.ModuleList([block, other]), "mixed": mixed})
    assert repeated_blocks(model) == [block, other]


def test_a_model_of_one_layer_still_gives_its_loss():
    sizes = {"num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=60, hidden_size=16, intermediate_size=16, **sizes)).eval()
    assert_same_loss(model)
