"""AdamW of bitsandbytes: the same steps as torch's, smaller moments, bit-identical after a kill."""

from __future__ import annotations

import copy
import sys
from dataclasses import replace

import pytest
import torch
from transformers import AutoModelForCausalLM, GPT2Config

from relexify.errors import InputError, MissingExtra
from relexify.training.cost.estimate import estimate
from relexify.training.engine.optimisers.groups import parameter_groups
from relexify.training.engine.optimisers.muon import MuonAdamW
from relexify.training.options import Training
from relexify.training.plan import plan_stages
from relexify.training.rates import Rates
from relexify.training.trainable import check_trainable
from tests import pico
from tests.training.runs import TRAINING, Moment, assert_same_bits

SMALL = {"optim_bits": 8, "is_paged": False}
SHAPES = ((80, 90), (64, 128), (7,))


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def parameters_and_groups() -> tuple[list[torch.nn.Parameter], list[dict[str, object]]]:
    parameters = [torch.nn.Parameter(random(*shape)) for shape in SHAPES]
    return parameters, [
        {"params": parameters[:1], "lr": 0.01, "muon": True, "weight_decay": 0.1},
        {"params": parameters[1:], "lr": 0.02, "weight_decay": 0.1},
    ]


def take_steps(parameters: list[torch.nn.Parameter], optimiser: torch.optim.Optimizer, steps: range) -> None:
    for step in steps:
        for parameter in parameters:
            parameter.grad = random(*parameter.shape, seed=step)
        optimiser.step()


@pytest.fixture
def optimiser_class():
    pytest.importorskip("bitsandbytes", reason="the optional package bitsandbytes is not installed")
    from relexify.training.engine.optimisers.low_memory import LowMemoryAdamW

    return LowMemoryAdamW


@pytest.mark.parametrize(("bits", "tolerance"), [(32, 1e-5), (8, 5e-3)])
def test_steps_are_those_of_torch_up_to_the_precision_of_the_moments(optimiser_class, bits, tolerance):
    ours, groups = parameters_and_groups()
    theirs, same = parameters_and_groups()
    options = {"betas": (0.8, 0.98), "eps": 1e-6}
    take_steps(ours, optimiser_class(groups, optim_bits=bits, **options), range(10))
    take_steps(theirs, MuonAdamW(same, **options), range(10))
    assert torch.equal(ours[0], theirs[0]), "Muon differs"
    for one, other in zip(ours[1:], theirs[1:], strict=True):
        error = (one - other).detach().square().mean().sqrt()
        assert error < tolerance


def test_a_restored_state_continues_bit_for_bit(optimiser_class):
    parameters, groups = parameters_and_groups()
    optimiser = optimiser_class(groups, **SMALL)
    take_steps(parameters, optimiser, range(3))
    assert optimiser.state[parameters[1]]["state1"].dtype == torch.uint8
    others, same = parameters_and_groups()
    with torch.no_grad():
        for parameter, other in zip(parameters, others, strict=True):
            other.copy_(parameter)
    resumed = optimiser_class(same, **SMALL)
    resumed.load_state_dict(copy.deepcopy(optimiser.state_dict()))
    take_steps(parameters, optimiser, range(3, 6))
    take_steps(others, resumed, range(3, 6))
    assert all(torch.equal(one, other) for one, other in zip(parameters, others, strict=True))


@pytest.mark.parametrize(
    "changes",
    [
        {"plan": "direct"},
        {"plan": "relexify", "learning_rate": None, "optimiser": "muon", "average": 0.9},
        {"plan": "relexify", "learning_rate": None, "inner_precision": "bfloat16"},
    ],
    ids=["direct", "muon-and-average", "bfloat16"],
)
def test_a_killed_run_with_small_moments_resumes_bit_for_bit(optimiser_class, run_of, changes):
    run, training = run_of(), replace(TRAINING, optimiser_state="8-bit", **changes)
    run.train_until_killed(Moment("step", 5), training)
    resumed = run.train(training)
    whole = run.train(training, "uninterrupted")
    assert_same_bits(resumed.output, whole.output)
    assert resumed.curve == whole.curve
    usual = run.train(replace(training, optimiser_state="float32"), "usual")
    start, end = (usual.curve.points[index].bits_per_byte for index in (0, -1))
    assert whole.curve.last.bits_per_byte == pytest.approx(end, abs=0.1 * (start - end)), "it learns as much"
    assert whole.curve.last.bits_per_byte != end, "the moments are not those of float32"


@pytest.mark.parametrize("optimiser", ["adamw", "muon"])
def test_moments_take_the_memory_that_is_estimated(optimiser_class, optimiser):
    model, _ = pico.pair("llama untied")
    training = Training(steps=1, batch=2, length=16, plan="direct", optimiser=optimiser, optimiser_state="8-bit")
    groups = parameter_groups(model, Rates(1e-3, 1e-3, 1e-3), 0.0, muon=optimiser == "muon")
    trained = optimiser_class(groups, **SMALL)
    ids = torch.randint(0, 50, (2, 16))
    model(input_ids=ids, labels=ids).loss.backward()
    trained.step()
    shared = ("step", "qmap1", "qmap2")  # the code of 256 numbers is one for all parameters
    states = [each for state in trained.state.values() for name, each in state.items() if name not in shared]
    assert estimate(model, training)[0].memory.optimiser == sum(each.nbytes for each in states)


def test_pages_and_eight_bits_take_less_memory_in_estimates():
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(GPT2Config(n_layer=2, n_embd=256, n_head=2))
    sizes = [
        estimate(model, Training(length=16, plan="direct", optimiser_state=state))[0].memory.optimiser
        for state in ("float32", "8-bit", "paged", "paged-8-bit")
    ]
    assert sizes[1] < 0.3 * sizes[0]
    assert sizes[3] < sizes[1]
    assert sizes[2] < sizes[0]


def test_a_missing_package_and_impossible_states_are_rejected_before_any_work(monkeypatch):
    monkeypatch.setitem(sys.modules, "bitsandbytes", None)
    model, _ = pico.pair("gpt2")
    with pytest.raises(MissingExtra, match=r"needs the package bitsandbytes: pip install 'relexify\[bitsandbytes\]'"):
        check_trainable(model, replace(TRAINING, optimiser_state="8-bit"))
    with pytest.raises(InputError, match="`optimiser_state=4-bit` is not possible: choose one of float32, 8-bit"):
        plan_stages(Training(optimiser_state="4-bit"))
    with pytest.raises(InputError, match="not possible with the optimiser lookahead"):
        plan_stages(Training(optimiser_state="paged", optimiser="lookahead"))
