"""Snapshots: the models of single steps are complete, those that were scored, and the same after an interruption."""

from __future__ import annotations

from dataclasses import replace

import pytest

from relexify.errors import InputError
from relexify.evaluation.text import TextScoring, score_text
from relexify.steps import snapshot_folder
from relexify.training.plan import plan_stages
from tests.training.runs import TRAINING, Moment, assert_same_bits, tensors

KEEPING = replace(TRAINING, snapshots=(4, 9))


def test_a_snapshot_is_the_model_that_was_scored_at_its_step(run_of):
    run = run_of()
    result = run.train(KEEPING)
    assert {path.name for path in (result.output / "snapshots").iterdir()} == {"step-4", "step-9"}
    for step in (4, 9):
        bits, _ = score_text(
            snapshot_folder(result.output, step), run.held_out, TextScoring(length=TRAINING.length, device="cpu")
        )
        assert result.curve.at(step).step == step, "a snapshot is scored"
        assert bits.value == pytest.approx(result.curve.at(step).bits_per_byte, rel=1e-5)


def test_snapshots_do_not_change_the_training_and_fall_into_any_stage(run_of):
    run, staged = run_of(), replace(KEEPING, plan="embeddings-first", steps=40)
    kept, plain = run.train(staged), run.train(replace(staged, snapshots=()), "plain")
    assert_same_bits(kept.output, plain.output)
    first, second = (tensors(snapshot_folder(kept.output, step)) for step in (4, 9))
    changed = {name for name in first if not first[name].equal(second[name])}
    assert any("wte" not in name for name in changed), "step 9 is in the second stage, which trains everything"


@pytest.mark.parametrize("moment", [Moment("step", 5), Moment("step", 8), Moment("finishing", 1)], ids=str)
def test_a_killed_run_resumes_with_the_same_snapshots(run_of, moment):
    run = run_of()
    expected = run.train(KEEPING, "uninterrupted")
    run.train_until_killed(moment, KEEPING)
    result = run.train(KEEPING)
    for step in KEEPING.snapshots:
        assert_same_bits(snapshot_folder(result.output, step), snapshot_folder(expected.output, step))


@pytest.mark.parametrize("steps", [(0, 3), (12,), (3, 20)])
def test_snapshots_outside_the_training_are_rejected(steps):
    with pytest.raises(InputError, match="are not all between the first and the last of 12 steps"):
        plan_stages(replace(TRAINING, snapshots=steps))
