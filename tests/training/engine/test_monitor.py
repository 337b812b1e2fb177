"""What users see of a training: loss, score and speed, an estimate of the time, and reports to other services."""

from __future__ import annotations

import importlib.util
import logging
import re
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from transformers import TrainerState

from relexify.errors import InputError
from relexify.pretrained.loading import load_model
from relexify.progress import report_to, runs_follow
from relexify.training import run as run_module
from relexify.training.cost import here
from relexify.training.engine import monitor
from relexify.training.engine.arguments import evaluated_steps
from relexify.training.options import Training
from relexify.training.plan import plan_stages
from relexify.training.run import train
from tests import pico
from tests.training.runs import TRAINING


@pytest.fixture
def heard() -> list[tuple[int, str]]:
    return []


@pytest.fixture
def reporter(heard) -> Any:
    @contextmanager
    def record(description: str, total: int | None = None):
        def advance(amount: int, status: str = "") -> None:
            if f"{description}: ".startswith("training: "):
                heard.append((amount, status))

        yield advance

    return record


def test_loss_and_speed_are_reported_and_every_score_is_logged_once(run_of, reporter, heard, caplog):
    caplog.set_level(logging.INFO, logger="relexify")
    with report_to(reporter):
        result = run_of().train(replace(TRAINING, steps=8, evaluate_every=4, save_every=100))
    assert sum(amount for amount, _ in heard) == 8
    assert re.fullmatch(r"loss \d+\.\d{3}, [\d,]+ tokens/s", heard[-1][1])
    for point in result.curve.points:
        assert f"step {point.step}: {point.bits_per_byte:.3f} bits per byte" in caplog.text
    assert re.search(r"step 8: .* bits per byte, training loss \d+\.\d{3} nats per token$", caplog.text, re.MULTILINE)
    (stage,) = [message for message in caplog.messages if message.startswith("stage ")]
    assert re.fullmatch(r"stage everything: trains all [\d,]+ parameters", stage)


def test_the_logged_loss_is_that_of_the_curve_also_if_checkpoints_log_others(run_of, caplog):
    caplog.set_level(logging.INFO, logger="relexify")
    result = run_of().train(replace(TRAINING, steps=8, evaluate_every=4, save_every=3))
    logged = re.findall(r"step (\d+): .* training loss ([\d.]+) nats", caplog.text)
    assert logged == [(str(point.step), f"{point.loss:.3f}") for point in result.curve.points if point.loss is not None]
    assert [step for step, _ in logged] == ["1", "4", "8"]


def test_during_scoring_the_last_loss_is_shown_and_that_it_is_scored(run_of, reporter, heard):
    run = run_of()
    with report_to(reporter):
        result = run.train(replace(TRAINING, steps=2, evaluate_every=1, save_every=100))
    first, last = (f"loss {point.loss:.3f}" for point in result.curve.points[1:])
    shown = [re.sub(r", [\d,]+ tokens/s", "", status) for _, status in heard]
    assert shown == ["", "", f"{first}, scoring", first, first, f"{last}, scoring", last]


def test_a_long_training_announces_its_time_once_and_that_of_the_runs_after_it(run_of, monkeypatch, caplog):
    monkeypatch.setattr(monitor, "ANNOUNCED_FROM", 0)
    monkeypatch.setattr(monitor, "LONG_TRAINING", 0)
    caplog.set_level(logging.INFO, logger="relexify")
    with runs_follow(2):
        run_of().train(replace(TRAINING, steps=8, evaluate_every=8, save_every=100, plan="embeddings-first"))
    announced = [message for message in caplog.messages if "steps take about" in message]
    assert len(announced) == 1
    # The first stage has one step, too few to measure; so this is the second one after two of its seven steps.
    assert announced[0].startswith("the remaining 5 steps take about")
    assert "for the 2 runs after this one" in announced[0]
    assert announced[0].endswith("consider fewer steps, a smaller batch or shorter sequences, or a GPU")


def test_a_cpu_says_before_the_first_step_how_long_a_training_takes(run_of, monkeypatch, caplog):
    caplog.set_level(logging.INFO, logger="relexify")
    training = replace(TRAINING, steps=2, evaluate_every=2, save_every=100)
    monkeypatch.setattr(run_module, "seconds_here", lambda model, training: 5 * 24 * 3600.0)
    run_of().train(training)
    (number,) = [index for index, message in enumerate(caplog.messages) if message.startswith("2 steps take about")]
    assert caplog.messages[number].startswith("2 steps take about 5 days on this CPU; consider fewer steps")
    assert number < next(index for index, message in enumerate(caplog.messages) if message.startswith("step 0: "))


def test_the_time_of_a_training_grows_with_its_steps_and_small_ones_are_not_estimated(run_of, monkeypatch):
    model = load_model(run_of().source)
    peaks = []
    monkeypatch.setattr(here, "matrix_peak", lambda dtype: peaks.append(dtype) or 1e9)
    assert here.seconds_here(model, replace(TRAINING, steps=2)) == 0
    assert not peaks
    monkeypatch.setattr(here, "FEW_OPERATIONS", 0)
    short, long = (here.seconds_here(model, replace(TRAINING, steps=steps)) for steps in (10, 1000))
    assert long == pytest.approx(100 * short)


@pytest.mark.parametrize(
    ("steps", "scored"),
    [(1, {1}), (6, {2, 4, 6}), (30, {3, 8, 16, 24}), (100, set(range(10, 101, 10))), (400, {40, *range(20, 401, 20)})],
)
def test_short_runs_are_scored_less_often(steps, scored):
    training = Training(steps=steps)
    (stage,) = plan_stages(training)
    assert evaluated_steps(training, stage, 0) == scored
    assert evaluated_steps(replace(training, evaluate_every=steps), stage, 0) == {steps}


@pytest.mark.parametrize(
    ("scores", "warned"),
    [
        ([2.0, 1.5, 1.56, 1.6], True),  # more than 3 % worse, once
        ([2.0, 2.07], True),  # also than before training
        ([2.0, 1.5, 1.54], False),
        ([0.3, 0.315], False),  # 5 % worse, but by less than 0.02
        ([2.0, 1.9, 1.8, 1.7, 1.9], False),  # the text is seen for the second time
    ],
)
def test_a_score_that_becomes_worse_on_new_text_is_called_unstable_once(scores, warned, caplog):
    watching, state = _monitor(steps_before=10, new_text_steps=40), TrainerState()
    for step, score in zip(range(0, 50, 10), scores, strict=False):
        state.global_step = step
        state.log_history.append({monitor.BITS: score, "step": step})
        watching.on_log(None, state, None, logs={monitor.BITS: score})
    found = [record.message for record in caplog.records if "unstable" in record.message]
    assert len(found) == warned
    if warned:
        worse = next(step for step, score in enumerate(scores) if score > min(scores[:step], default=9))
        best = scores.index(min(scores[:worse]))
        assert found[0].startswith(
            f"held-out text takes {scores[worse]:.3f} bits per byte at step {10 * worse + 10}, "
            f"{scores[best]:.3f} at step {10 * best + 10}: if it is like the corpus, the training is unstable; a lower "
        )


def test_a_warning_before_an_interruption_is_not_repeated_after_it(caplog):
    state = TrainerState()
    for step, score in enumerate([2.0, 1.5, 1.6, 1.7]):
        state.log_history.append({monitor.BITS: score, "step": step})
        state.global_step = step
        resumed = _monitor(new_text_steps=40)  # a process of its own for every step
        resumed.on_log(None, state, None, logs={monitor.BITS: score})
    (warned,) = [message for message in caplog.messages if "unstable" in message]
    assert warned.startswith("held-out text takes 1.600 bits per byte at step 2, 1.500 at step 1")


def test_a_training_with_too_high_a_learning_rate_is_called_unstable(run_of, caplog):
    run = run_of()
    text = run.folder / "long.txt"
    text.write_text("\n".join(pico.sentences(400)))
    train(run.source, run.output("high"), text, replace(TRAINING, learning_rate=1.0), held_out=run.held_out)
    assert len([message for message in caplog.messages if "the training is unstable" in message]) == 1


def test_reports_to_unknown_or_missing_services_are_rejected_before_any_work():
    with pytest.raises(InputError, match="cannot report to 'weights': choose one of tensorboard, wandb, trackio"):
        plan_stages(Training(report_to=("weights",)))
    missing = [name for name in ("wandb", "trackio") if importlib.util.find_spec(name) is None]
    if not missing:
        pytest.skip("all services are installed")
    with pytest.raises(InputError, match=f"needs the package {missing[0]}: pip install {missing[0]}"):
        plan_stages(Training(report_to=(missing[0],)))


def _monitor(**sizes: int) -> monitor.StageMonitor:
    return monitor.StageMonitor(frozenset(), None, lambda amount, status="": None, tokens_per_step=64, **sizes)
