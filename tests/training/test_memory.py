"""Training with less memory: activations that are computed again, and inner parameters in bfloat16."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from relexify.errors import InputError
from relexify.pretrained.loading import load_model
from relexify.pretrained.parameters.lexical import lexical_axes
from relexify.training.options import Training
from relexify.training.precision import cast_for_training
from relexify.training.trainable import check_trainable
from tests import pico
from tests.training.runs import TRAINING, Moment, assert_close, assert_same_bits, tensors

HALF = replace(TRAINING, inner_precision="bfloat16")
OWN_PLAN = replace(HALF, plan="relexify", learning_rate=None, optimiser="muon")


@pytest.mark.parametrize("family", ["gpt2", "llama tied", "bert"])
def test_activations_that_are_computed_again_give_the_same_result(run_of, family):
    run = run_of(family)
    run.train(TRAINING, "kept")
    run.train(replace(TRAINING, checkpoint_activations=True), "again")
    assert_close(run.output("kept"), run.output("again"))


def test_activations_that_are_computed_again_are_not_kept():
    """Checked on the saved tensors of a forward pass, because a CPU does not report its peak memory."""
    model, _ = pico.pair("llama tied")
    tokens = torch.arange(16)[None]

    def kept():
        sizes = []
        with torch.autograd.graph.saved_tensors_hooks(
            lambda each: sizes.append(each.numel()) or each, lambda each: each
        ):
            model.train()(input_ids=tokens, use_cache=False)
        return sum(sizes)

    before = kept()
    model.gradient_checkpointing_enable({"use_reentrant": False})
    assert kept() < before / 2


def test_a_model_that_cannot_compute_activations_again_is_rejected():
    model, _ = pico.pair("gpt2")
    vars(model)["supports_gradient_checkpointing"] = False
    check_trainable(model, Training(length=16))
    with pytest.raises(InputError, match="GPT2LMHeadModel cannot compute activations again"):
        check_trainable(model, Training(length=16, checkpoint_activations=True))


@pytest.mark.parametrize("family", ["gpt2", "llama untied", "bert"])
def test_only_inner_parameters_are_cast(family):
    model, _ = pico.pair(family)
    lexical = lexical_axes(model)
    cast = cast_for_training(model, HALF)
    assert cast is model
    for name, parameter in model.named_parameters():
        assert parameter.dtype == (torch.float32 if name in lexical else torch.bfloat16), name
    assert all(parameter.dtype == torch.float32 for parameter in cast_for_training(model, TRAINING).parameters())


@pytest.mark.parametrize("training", [HALF, OWN_PLAN], ids=["adamw", "muon"])
@pytest.mark.parametrize("family", ["llama untied", "bert"])
def test_inner_parameters_in_bfloat16_learn(run_of, family, training, caplog):
    run = run_of(family)
    with caplog.at_level("INFO"):
        result = run.train(training)
    assert "all logits of a batch" not in caplog.text
    assert result.curve.last.bits_per_byte < result.curve.points[0].bits_per_byte
    before, after = tensors(run.source), tensors(result.output)
    lexical = lexical_axes(load_model(run.source))
    for name, value in after.items():
        assert value.dtype == torch.float32, "the result has the format of the source"
        assert torch.equal(value, value.bfloat16().float()) == (name not in lexical), name
    assert sum(not torch.equal(before[name], value) for name, value in after.items()) > len(after) / 2


def test_bfloat16_resumes_with_the_same_bits(run_of):
    run = run_of("llama tied")
    run.train(OWN_PLAN, "whole")
    run.train_until_killed(Moment("step", 7), OWN_PLAN, "killed")
    run.train(OWN_PLAN, "killed")
    assert_same_bits(run.output("whole"), run.output("killed"))
