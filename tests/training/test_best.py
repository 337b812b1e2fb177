"""Where training only makes it worse from some step on, it stops, and the best model is the one that is kept."""

from __future__ import annotations

from dataclasses import replace

import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer

from relexify.errors import InputError
from relexify.pretrained.loading import load_model, load_tokenizer
from relexify.scoring import language_model_scores
from relexify.training.options import Stage, Training
from relexify.training.results.result import TrainingResult
from tests.training.runs import HELD_OUT, LENGTH, LINES, TRAINING, Moment, Run, assert_same_bits, beside, tensors

OVERFITTING = replace(
    TRAINING, steps=80, learning_rate=3e-2, schedule="constant", evaluate_every=2, save_every=3, patience=3
)


@pytest.fixture(scope="module")
def run(shared_run, tmp_path_factory) -> Run:
    """A text of a few lines, which is soon known by heart."""
    shared = beside(shared_run("gpt2"), tmp_path_factory.mktemp("best"))
    corpus = shared.folder / "few.txt"
    corpus.write_text("\n".join(LINES[:4]))
    return replace(shared, corpus=corpus)


@pytest.fixture(scope="module")
def result(run) -> TrainingResult:
    return run.train(OVERFITTING, "uninterrupted")


def measured(result: TrainingResult) -> float:
    model = AutoModelForCausalLM.from_pretrained(result.output)
    tokenizer = AutoTokenizer.from_pretrained(result.output)
    return language_model_scores(model, tokenizer, HELD_OUT, window=LENGTH)[0].value


def test_training_stops_when_patience_is_at_its_end(result):
    assert result.curve.last.step < OVERFITTING.steps
    after = [point for point in result.curve.points if point.step > result.selected]
    assert len(after) == OVERFITTING.patience
    assert result.tokens == result.curve.last.step * OVERFITTING.tokens_per_step


def test_the_best_measured_model_is_kept_and_not_the_last(result):
    assert 0 < result.selected == result.curve.best.step < result.curve.last.step
    assert measured(result) == pytest.approx(result.curve.best.bits_per_byte, abs=1e-4)
    assert result.curve.last.bits_per_byte > result.curve.best.bits_per_byte + 0.01


def test_the_last_model_is_kept_by_default(run):
    last = run.train(replace(OVERFITTING, keep_best=False), "last")
    assert last.selected == last.curve.last.step > last.curve.best.step
    assert measured(last) == pytest.approx(last.curve.last.bits_per_byte, abs=1e-4)


def test_the_best_is_kept_without_patience_too(run, result):
    steps = result.curve.last.step + 4
    patient = run.train(replace(OVERFITTING, steps=steps, patience=None, keep_best=True), "patient")
    assert patient.curve.last.step == steps
    assert patient.selected == patient.curve.best.step
    assert measured(patient) == pytest.approx(patient.curve.best.bits_per_byte, abs=1e-4)


@pytest.mark.parametrize("later", [1, 5])
def test_a_run_killed_after_its_best_checkpoint_still_keeps_that_and_stops_as_soon(run, result, later, tmp_path):
    killed = beside(run, tmp_path)
    killed.train_until_killed(Moment("step", result.selected + later), OVERFITTING)
    again = killed.train(OVERFITTING)
    assert again.curve == result.curve
    assert again.selected == result.selected
    assert_same_bits(again.output, result.output)


def test_a_killed_run_that_was_moved_elsewhere_still_keeps_its_best(run, result, tmp_path):
    killed = beside(run, tmp_path)
    killed.train_until_killed(Moment("step", result.selected + 5), OVERFITTING)
    killed.work().rename(killed.work("moved"))
    again = killed.train(OVERFITTING, "moved")
    assert again.selected == result.selected
    assert_same_bits(again.output, result.output)


@pytest.mark.parametrize("keep_best", [True, False])
def test_a_run_killed_when_its_patience_was_at_an_end_does_not_train_on(run, tmp_path, keep_best):
    training: Training = replace(OVERFITTING, keep_best=keep_best, save_every=1)
    killed = beside(run, tmp_path)
    expected = killed.train(training, "uninterrupted")
    killed.train_until_killed(Moment("measured"), training)
    again = killed.train(training)
    assert again.curve == expected.curve
    assert again.selected == expected.selected
    assert_same_bits(again.output, expected.output)


def test_checkpoints_go_on_where_nothing_gets_better(run, result, tmp_path):
    training = replace(OVERFITTING, save_every=OVERFITTING.evaluate_every)
    killed = beside(run, tmp_path)
    killed.train_until_killed(Moment("step", result.selected + 5), training)
    steps = [int(path.name.partition("-")[2]) for path in killed.work().glob("*/checkpoint-*")]
    assert sorted(steps) == [result.selected, result.selected + 2, result.selected + 4]
    assert tensors(killed.work() / "1-everything" / f"checkpoint-{result.selected}")


def test_the_best_may_lie_in_an_earlier_stage(run_of):
    run = run_of()
    stages = (Stage("gentle", 6, learning_rate=1e-2), Stage("wild", 6, learning_rate=1.0))
    result = run.train(replace(TRAINING, stages=stages, steps=12, keep_best=True))
    assert result.selected == result.curve.best.step <= 6
    model, tokenizer = load_model(result.output), load_tokenizer(result.output)
    bits, _ = language_model_scores(model, tokenizer, HELD_OUT, window=LENGTH)
    assert bits.value == pytest.approx(result.curve.best.bits_per_byte, abs=1e-4)


def test_both_plans_are_measured_at_the_same_steps(run_of):
    training = replace(TRAINING, steps=20, evaluate_every=6)
    curves = [run_of().train(replace(training, plan=plan), plan).curve for plan in ("direct", "embeddings-first")]
    steps = [[point.step for point in curve.points] for curve in curves]
    assert steps[0] == [0, 2, 6, 12, 18, 20]
    assert set(steps[1]) == set(steps[0])


def test_a_damaged_best_checkpoint_is_not_handed_on(run):
    name = "damaged-best"
    run.train_until_killed(Moment("keeping a stage", 1), OVERFITTING, name)
    stage = next(run.work(name).glob("*-everything"))
    best = min(stage.glob("checkpoint-*"), key=lambda path: int(path.name.split("-")[1])) / "model.safetensors"
    content = bytearray(best.read_bytes())
    content[len(content) // 2 :: 7] = bytes(len(content[len(content) // 2 :: 7]))
    best.write_bytes(content)
    with pytest.raises(InputError, match="is damaged"):
        run.train(OVERFITTING, name)
