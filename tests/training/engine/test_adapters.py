"""Training through low-rank adapters: what is trained, how they are merged, resuming, and adapters kept separate."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from typing import get_args

import pytest
import torch
from transformers.pytorch_utils import Conv1D

from relexify.errors import InputError, MissingExtra
from relexify.pretrained.loading import load_model
from relexify.pretrained.parameters.lexical import lexical_axes
from relexify.training.engine.adapters import ADAPTERS, add_adapters
from relexify.training.engine.freezing import freeze_all_but
from relexify.training.engine.optimisers.groups import parameter_groups
from relexify.training.engine.trainer import StageTrainer
from relexify.training.options import LoraVariant, Training
from relexify.training.plan import plan_stages
from relexify.training.rates import Rates
from relexify.training.trainable import check_trainable
from tests import pico
from tests.training.runs import TRAINING, Moment, assert_close, assert_same_bits, tensors

LORA = replace(TRAINING, lora_rank=4)
OWN_PLAN = replace(LORA, plan="relexify", learning_rate=None)


def test_adapters_exclude_muon_and_snapshots():
    assert [stage.optimiser for stage in plan_stages(Training(lora_rank=4))] == ["adamw"]
    for changes, message in (({"optimiser": "muon"}, "muon trains whole"), ({"snapshots": (3,)}, "snapshots cannot")):
        with pytest.raises(InputError, match=message):
            plan_stages(replace(LORA, **changes))


def test_a_missing_peft_is_reported_before_any_work(monkeypatch):
    monkeypatch.setitem(sys.modules, "peft", None)
    model, _ = pico.pair("gpt2")
    with pytest.raises(MissingExtra, match=r"peft: pip install 'relexify\[lora\]'"):
        check_trainable(model, LORA)


@pytest.mark.parametrize("family", ["gpt2", "llama untied", "bert"])
def test_only_adapters_and_the_vocabulary_are_trained(family):
    pytest.importorskip("peft")
    model, _ = pico.pair(family)
    before, lexical = model.state_dict(), set(lexical_axes(model))
    freeze_all_but(model, "everything")
    adapters = add_adapters(model, 4)
    trained = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert {name for name in trained if "lora_" not in name} == lexical & dict(model.named_parameters()).keys()
    assert any("lora_A" in name for name in trained)
    adapters.merge()  # B is zero
    after = model.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], value) for name, value in after.items())
    assert not hasattr(model, "peft_config")
    freeze_all_but(model, "embeddings")
    assert add_adapters(model, 4) is None
    freeze_all_but(model, "inner")
    assert add_adapters(model, 4) is not None
    assert all("lora_" in name for name, parameter in model.named_parameters() if parameter.requires_grad)


def test_variants_need_adapters_and_a_known_name():
    for changes, message in (
        ({"lora_variant": "dora"}, "`lora_variant=dora` has no effect without adapters: give `lora_rank`"),
        (
            {"lora_variant": "vera", "lora_rank": 4},
            "`lora_variant=vera` is not possible: choose one of lora, rslora",
        ),
    ):
        with pytest.raises(InputError, match=message):
            plan_stages(replace(TRAINING, **changes))


@pytest.mark.parametrize("family", ["gpt2", "llama untied", "bert"])
@pytest.mark.parametrize("variant", get_args(LoraVariant))
def test_a_merged_matrix_is_that_of_the_paper_and_computes_what_its_adapter_did(family, variant):
    """LoRA: W + (alpha / r) B A; rsLoRA: alpha / √r; DoRA: rows with trained norms, in that direction."""
    pytest.importorskip("peft")
    rank, alpha = 4, 6.0
    model, _ = pico.pair(family)
    ids = torch.randint(5, 50, (2, 12), generator=torch.Generator().manual_seed(0))
    freeze_all_but(model, "everything")
    before = {name: value.clone() for name, value in model.state_dict().items()}
    adapters = add_adapters(model.eval(), rank, variant=variant, alpha=alpha)
    generator, expected = torch.Generator().manual_seed(1), {}
    with torch.no_grad():
        for name, module in model.named_modules():
            if not hasattr(module, "lora_A"):
                continue
            down, up = module.lora_A["default"].weight, module.lora_B["default"].weight
            up.normal_(generator=generator)
            weight = before[f"{name}.weight"]
            is_transposed = isinstance(module.base_layer, Conv1D)
            scale = alpha / (rank**0.5 if variant == "rslora" else rank)
            merged = (weight.T if is_transposed else weight) + scale * up @ down
            if variant == "dora":
                norms = module.lora_magnitude_vector["default"].weight
                norms.mul_(1 + torch.rand(norms.shape, generator=generator))
                merged = norms[:, None] * merged / merged.norm(dim=1, keepdim=True)
            expected[f"{name}.weight"] = merged.T if is_transposed else merged
        logits = model(input_ids=ids).logits
        adapters.merge()
        after = model.state_dict()
        assert after.keys() == before.keys()
        for name, value in after.items():
            torch.testing.assert_close(value, expected.get(name, before[name]), rtol=1e-4, atol=1e-5, msg=name)
        torch.testing.assert_close(model(input_ids=ids).logits, logits, rtol=1e-4, atol=1e-4)
    assert expected


@pytest.mark.parametrize("stage", ["AdamW of the Trainer", "groups"])
def test_the_magnitudes_of_dora_do_not_decay(stage):
    pytest.importorskip("peft")
    model, _ = pico.pair("llama untied")
    freeze_all_but(model, "everything")
    add_adapters(model, 4, variant="dora")
    if stage == "groups":
        groups = parameter_groups(model, Rates(inner=1e-3, embeddings=1e-3, others=1e-3), 0.1)
        decaying = {id(parameter) for group in groups if group["weight_decay"] for parameter in group["params"]}
    else:
        names = set(StageTrainer.get_decay_parameter_names(None, model))
        decaying = {id(parameter) for name, parameter in model.named_parameters() if name in names}
    trained = {name: id(value) in decaying for name, value in model.named_parameters() if value.requires_grad}
    magnitudes = {name for name in trained if "magnitude" in name}
    assert magnitudes
    assert not any(trained[name] for name in magnitudes)
    assert all(decays for name, decays in trained.items() if "lora_A" in name or "lora_B" in name)


def test_without_alpha_all_variants_have_the_factor_two_with_a_rank_of_16():
    pytest.importorskip("peft")
    for variant in get_args(LoraVariant):
        model, _ = pico.pair("llama untied")
        freeze_all_but(model, "everything")
        add_adapters(model, 16, variant=variant)
        assert {module.scaling["default"] for module in model.modules() if hasattr(module, "lora_A")} == {2.0}


@pytest.mark.parametrize("training", [LORA, OWN_PLAN, replace(LORA, plan="embeddings-first")], ids=lambda t: t.plan)
@pytest.mark.parametrize("family", ["gpt2", "bert"])
def test_a_merged_model_is_an_ordinary_one_with_changes_of_low_rank(run_of, family, training):
    pytest.importorskip("peft")
    run = run_of(family)
    result = run.train(training)
    before, after = tensors(run.source), tensors(result.output)
    assert before.keys() == after.keys()
    assert result.curve.last.bits_per_byte < result.curve.points[0].bits_per_byte
    assert not (result.output / ADAPTERS).exists()
    lexical = lexical_axes(load_model(run.source))
    for name, value in after.items():
        change = value - before[name]
        if name in lexical:
            assert change.abs().max() > 0, name
        elif value.ndim == 1 or re.search("position|token_type|wpe", name):
            assert torch.equal(value, before[name]), name
        else:
            assert torch.linalg.matrix_rank(change, rtol=1e-3) == LORA.lora_rank, name


@pytest.mark.parametrize("variant", get_args(LoraVariant))
def test_adapters_resume_with_the_same_bits(run_of, variant):
    pytest.importorskip("peft")
    run = run_of("llama tied")
    training = replace(OWN_PLAN, lora_variant=variant, inner_precision="bfloat16", checkpoint_activations=True)
    run.train(training, "whole")
    run.train_until_killed(Moment("step", 7), training, "killed")
    run.train(training, "killed")
    assert_same_bits(run.output("whole"), run.output("killed"))


@pytest.mark.parametrize("variant", get_args(LoraVariant))
def test_separate_adapters_give_the_merged_model_again(run_of, variant):
    peft = pytest.importorskip("peft")
    run, training = run_of("llama untied"), replace(LORA, lora_variant=variant)
    run.train(training, "merged")
    run.train(replace(training, lora_merged=False), "separate")
    before, separate = tensors(run.source), tensors(run.output("separate"))
    lexical = lexical_axes(load_model(run.source))
    assert all(torch.equal(value, before[name]) for name, value in separate.items() if name not in lexical)
    with_adapters = peft.PeftModel.from_pretrained(
        load_model(run.output("separate")), run.output("separate") / ADAPTERS
    )
    with_adapters.merge_and_unload().save_pretrained(run.folder / "again")
    assert_close(run.folder / "again", run.output("merged"))
