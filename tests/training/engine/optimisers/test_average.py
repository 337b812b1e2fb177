"""With `average`, the moving average of the weights is scored and kept, also after a kill and with the best model."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerState

from relexify.scoring import language_model_scores
from relexify.training.engine.optimisers.average import WeightAverage, averaged_weights, keep_averages
from relexify.training.results.result import TrainingResult
from tests.training.runs import HELD_OUT, LENGTH, TRAINING, Moment, assert_close, assert_same_bits, tensors

AVERAGED = replace(TRAINING, average=0.8)
OWN_PLAN = replace(AVERAGED, plan="relexify", learning_rate=None, keep_best=False)


def measured(result: TrainingResult) -> float:
    model = AutoModelForCausalLM.from_pretrained(result.output)
    return language_model_scores(model, AutoTokenizer.from_pretrained(result.output), HELD_OUT, window=LENGTH)[0].value


@pytest.mark.parametrize(("decay", "interval"), [(0.5, 1), (0.9, 2), (0.98, 10)])
def test_the_average_is_that_of_the_equation_and_the_weights_return(decay, interval):
    weight = torch.nn.Parameter(torch.zeros(3))
    optimiser = torch.optim.AdamW([weight], lr=0.1)
    keep_averages(optimiser)
    average, expected = WeightAverage(decay), None
    for step in range(25):
        weight.grad = torch.randn(3, generator=torch.Generator().manual_seed(step))
        optimiser.step()
        average.on_optimizer_step(None, TrainerState(global_step=step), None, optimizer=optimiser)
        share = min(decay, (1 + step) / (10 + step)) ** interval
        now = weight.detach().clone()
        if step % interval == 0:
            expected = now if expected is None else share * expected + (1 - share) * now
        with averaged_weights(optimiser):
            torch.testing.assert_close(weight.detach(), expected)
        assert torch.equal(weight, now)


@pytest.mark.parametrize("training", [AVERAGED, OWN_PLAN], ids=["direct", "relexify"])
def test_a_killed_run_resumes_its_averages_bit_for_bit(run_of, training):
    run = run_of()
    expected = run.train(training, "uninterrupted")
    run.train_until_killed(Moment("step", 7), training)
    result = run.train(training)
    assert_same_bits(result.output, expected.output)
    assert result.curve == expected.curve


def test_the_averages_are_scored_and_kept_and_do_not_change_the_training(run_of):
    run = run_of()
    averaged, plain = run.train(AVERAGED, "averaged"), run.train(TRAINING, "plain")
    assert [point.loss for point in averaged.curve.points] == [point.loss for point in plain.curve.points]
    assert averaged.curve.last.bits_per_byte != plain.curve.last.bits_per_byte
    assert measured(averaged) == pytest.approx(averaged.curve.last.bits_per_byte, abs=1e-4)


def test_the_best_model_is_an_average_too(run_of):
    result = run_of().train(replace(AVERAGED, steps=40, learning_rate=3e-2, schedule="constant", patience=3))
    assert 0 < result.selected < result.curve.last.step
    assert measured(result) == pytest.approx(result.curve.best.bits_per_byte, abs=1e-4)


def test_the_next_stage_starts_from_the_averages(run_of):
    run = run_of()
    training = replace(AVERAGED, plan="embeddings-first", steps=20)
    run.train_until_killed(Moment("stage", 2), training)
    averages = tensors(run.work() / "1-embeddings" / "result")
    frozen = {name: tensor for name, tensor in tensors(run.source).items() if "wte" not in name}
    assert all(torch.equal(averages[name], tensor) for name, tensor in frozen.items())
    run.train(training)
    whole = run.train(training, "whole")
    assert_close(run.output(), whole.output, rtol=0, atol=0)
