"""Lookahead does what the paper's algorithm says, and resumes from its saved state."""

from __future__ import annotations

import copy
import io

import pytest
import torch
from torch import nn
from torch.optim import AdamW

from relexify.training.engine.arguments import stage_optimiser
from relexify.training.engine.optimisers.lookahead import LookaheadAdamW
from relexify.training.options import Stage, Training
from relexify.training.rates import OTHER_SHARE
from tests import pico

OPTIONS = {"lr": 0.05, "betas": (0.9, 0.98), "weight_decay": 0.1}


def problem() -> tuple[nn.Module, torch.Tensor]:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2)), torch.randn(20, 6, 4)


def learn(model: nn.Module, optimiser: torch.optim.Optimizer, batch: torch.Tensor) -> None:
    model.zero_grad()
    (model(batch) - batch[:, :2]).square().mean().backward()
    optimiser.step()


def values(model: nn.Module) -> list[torch.Tensor]:
    return [parameter.detach().clone() for parameter in model.parameters()]


@pytest.mark.parametrize(("ahead", "alpha"), [(5, 0.5), (3, 0.8), (1, 0.25)])
def test_it_is_the_algorithm_of_the_paper(ahead, alpha):
    model, batches = problem()
    reference = copy.deepcopy(model)
    optimiser = LookaheadAdamW(model.parameters(), ahead=ahead, alpha=alpha, **OPTIONS)
    inner, slow = AdamW(reference.parameters(), **OPTIONS), values(reference)
    for step, batch in enumerate(batches, start=1):
        learn(model, optimiser, batch)
        learn(reference, inner, batch)
        if step % ahead == 0:
            slow = [old + alpha * (fast - old) for old, fast in zip(slow, values(reference), strict=True)]
            with torch.no_grad():
                for parameter, value in zip(reference.parameters(), slow, strict=True):
                    parameter.copy_(value)
        for one, other in zip(values(model), values(reference), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("stop", [1, 4, 5, 7])
def test_saved_and_loaded_it_continues_bit_for_bit(stop):
    model, batches = problem()
    optimiser = LookaheadAdamW(model.parameters(), **OPTIONS)
    for batch in batches[:stop]:
        learn(model, optimiser, batch)
    other, stream = copy.deepcopy(model), io.BytesIO()
    torch.save(optimiser.state_dict(), stream)
    stream.seek(0)
    later = LookaheadAdamW(other.parameters(), **OPTIONS)
    later.load_state_dict(torch.load(stream, weights_only=True))
    for batch in batches[stop:]:
        learn(model, optimiser, batch)
        learn(other, later, batch)
    assert all(torch.equal(one, two) for one, two in zip(values(model), values(other), strict=True))


def test_frozen_parameters_have_no_slow_weights():
    model, batches = problem()
    model[0].requires_grad_(False)
    before = values(model[0])
    optimiser = LookaheadAdamW([each for each in model.parameters() if each.requires_grad], **OPTIONS)
    for batch in batches:
        learn(model, optimiser, batch)
    assert all(torch.equal(one, two) for one, two in zip(before, values(model[0]), strict=True))
    assert len(optimiser.state) == 2


def test_a_closure_is_called_once():
    model, batches = problem()
    optimiser = LookaheadAdamW(model.parameters(), **OPTIONS)
    calls = []

    def closure() -> torch.Tensor:
        calls.append(1)
        model.zero_grad()
        loss = model(batches[0]).square().mean()
        loss.backward()
        return loss

    assert optimiser.step(closure).item() > 0
    assert len(calls) == 1
    assert len(optimiser.state) == 4


def test_a_stage_with_lookahead_uses_the_options_of_the_training(tmp_path):
    from relexify.training.engine.arguments import stage_arguments

    training = Training(steps=10, beta2=0.97, lookahead_steps=3, lookahead_alpha=0.8)
    stage = Stage("all", 10, learning_rate=0.25, optimiser="lookahead")
    model, arguments = pico.pair("gpt2")[0], stage_arguments(stage, training, tmp_path)
    found = stage_optimiser(model, stage, training, arguments)
    assert found is not None
    optimiser = found[0](problem()[0].parameters(), **found[1])
    assert (optimiser.ahead, optimiser.alpha) == (3, 0.8)
    assert optimiser.param_groups[0]["lr"] == 0.25
    assert optimiser.param_groups[0]["betas"] == (0.9, 0.97)
    assert stage_optimiser(model, Stage("all", 10), training, arguments) is None


def test_a_stage_with_muon_uses_the_options_and_rates_of_the_training(tmp_path):
    from relexify.training.engine.arguments import stage_arguments

    training = Training(steps=10, beta2=0.97, weight_decay=0.3)
    stage = Stage("all", 10, learning_rate=0.25, embedding_learning_rate=0.5, optimiser="muon")
    arguments = stage_arguments(stage, training, tmp_path)
    optimiser, options = stage_optimiser(pico.pair("gpt2")[0], stage, training, arguments) or (None, {})
    groups = optimiser(options.pop("params"), **options).param_groups
    assert {group["lr"] for group in groups} == {0.25, 0.5, 0.25 * OTHER_SHARE}
    assert all(group["betas"] == (0.9, 0.97) for group in groups)
    assert groups[0]["muon"]
    assert groups[0]["weight_decay"] == 0.3


def test_the_rate_rises_and_then_falls_with_the_root_of_the_steps():
    from transformers import get_scheduler

    optimiser = AdamW(problem()[0].parameters(), lr=1e-4)
    schedule = get_scheduler("inverse_sqrt", optimiser, num_warmup_steps=4_000, num_training_steps=150_000)
    rates = []
    for _ in range(16_001):
        rates.append(schedule.get_last_lr()[0])
        optimiser.step()
        schedule.step()
    paper = [1e-7 + (1e-4 - 1e-7) * step / 4_000 for step in range(4_001)]
    assert max(abs(one - two) for one, two in zip(rates, paper, strict=False)) <= 1e-7 * 1.001
    assert rates[4_000] == pytest.approx(1e-4)
    assert rates[16_000] == pytest.approx(1e-4 * (4_000 / 16_000) ** 0.5)


@pytest.mark.parametrize(("warmup", "expected"), [(4, (4 / 16) ** 0.5), (0, (1 / 17) ** 0.5)])
def test_the_root_schedule_counts_from_the_warm_up_or_from_one_step(tmp_path, warmup, expected):
    from transformers import get_scheduler

    from relexify.training.engine.arguments import stage_arguments

    stage = Stage("all", 20, learning_rate=1.0, warmup_steps=warmup, schedule="inverse_sqrt")
    arguments = stage_arguments(stage, Training(steps=20, batch=2), tmp_path)
    optimiser = AdamW(problem()[0].parameters(), lr=1.0)
    schedule = get_scheduler(
        arguments.lr_scheduler_type,
        optimiser,
        num_warmup_steps=arguments.get_warmup_steps(20),
        num_training_steps=20,
        scheduler_specific_kwargs=arguments.lr_scheduler_kwargs,
    )
    for _ in range(16):
        optimiser.step()
        schedule.step()
    assert schedule.get_last_lr()[0] == pytest.approx(expected)
