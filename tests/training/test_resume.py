"""A run that was killed at any moment and resumed is bit-identical to an uninterrupted one."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from relexify.errors import InputError, OutputError
from relexify.registry import Registry
from relexify.storage.notes import read_notes
from relexify.storage.runs.checkpoints import SEAL
from relexify.training import checks
from relexify.training.options import Training
from relexify.training.results.result import TrainingResult, load_result
from relexify.training.results.summary import summarise_training
from tests.training.runs import TRAINING, Moment, Run, assert_same_bits

EMBEDDINGS_FIRST = replace(TRAINING, plan="embeddings-first", steps=16, save_every=1, evaluate_every=5)
OWN_PLAN = replace(TRAINING, plan="relexify", learning_rate=None, optimiser="muon")  # steps are too small for it
TRAININGS = {"direct": TRAINING, "embeddings-first": EMBEDDINGS_FIRST, "relexify": OWN_PLAN}


@pytest.fixture(scope="module")
def uninterrupted(shared_run: Callable[..., Run]) -> Callable[[str, Training], TrainingResult]:
    """The result of a run without interruption, trained once."""

    @cache
    def result(family: str, training: Training) -> TrainingResult:
        return shared_run(family).train(training, f"uninterrupted-{hash(training)}")

    return result


def assert_equal(result: TrainingResult, expected: TrainingResult) -> None:
    assert_same_bits(result.output, expected.output)
    assert result.curve == expected.curve
    assert (result.selected, result.tokens) == (expected.selected, expected.tokens)


def checkpoints(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.glob("*/checkpoint-*")}


def test_the_text_of_these_tests_is_seen_several_times(run_of, caplog):
    with caplog.at_level("INFO"):
        run_of().train()
    (epochs,) = [record.args[0] for record in caplog.records if "seen %.3g times" in record.msg]
    assert 1.2 < epochs < TRAINING.steps / 3, "kills do not fall on both sides of an epoch's end"


@pytest.mark.parametrize(
    ("family", "plan", "moment"),
    [
        ("gpt2", "direct", Moment("step", 1)),
        ("gpt2", "direct", Moment("step", 5)),
        ("gpt2", "direct", Moment("writing", 1)),
        ("gpt2", "direct", Moment("sealing", 3)),
        ("gpt2", "direct", Moment("rotating", 1)),
        ("gpt2", "direct", Moment("finishing", 1)),
        ("bert", "direct", Moment("step", 7)),
        ("gpt2", "relexify", Moment("step", 5)),
        ("bert", "relexify", Moment("step", 7)),
        ("gpt2", "embeddings-first", Moment("step", 2)),
        ("gpt2", "embeddings-first", Moment("keeping a stage", 1)),
        ("gpt2", "embeddings-first", Moment("stage", 2)),
        ("gpt2", "embeddings-first", Moment("step", 9)),
        ("bert", "embeddings-first", Moment("stage", 2)),
    ],
    ids=str,
)
def test_a_killed_run_resumes_bit_for_bit(run_of, uninterrupted, family, plan, moment):
    run, training = run_of(family), TRAININGS[plan]
    run.train_until_killed(moment, training)
    assert not run.output().exists()
    assert_equal(run.train(training), uninterrupted(family, training))
    assert not run.work().exists()
    assert {path.name for path in run.folder.iterdir()} == {"out"}, "something was left behind"


def test_a_killed_run_does_not_start_again(run_of, caplog):
    run = run_of()
    run.train_until_killed(Moment("step", 9))
    assert checkpoints(run.work()) == {"1-everything/checkpoint-6", "1-everything/checkpoint-8"}
    with caplog.at_level("INFO"):
        resumed = run.train()
    assert "checkpoint-8" in caplog.text
    assert " s since it was resumed" in summarise_training(resumed)[1]
    assert summarise_training(load_result(resumed.output))[1] == summarise_training(resumed)[1]
    caplog.clear()
    run.train_until_killed(Moment("stage", 2), EMBEDDINGS_FIRST, "staged")
    with caplog.at_level("INFO"):
        run.train(EMBEDDINGS_FIRST, "staged")
    assert "stage everything" in caplog.text
    assert "stage embeddings" not in caplog.text


def test_a_run_that_was_killed_before_its_first_checkpoint_says_that_it_starts_again(run_of, caplog):
    run = run_of()
    run.train_until_killed(Moment("step", 1))
    with caplog.at_level("INFO"):
        run.train()
    assert caplog.text.count("interrupted before its first checkpoint; starting again") == 1
    caplog.clear()
    with caplog.at_level("INFO"):
        run.train(name="other")
    assert "starting again" not in caplog.text


def test_a_run_killed_twice_is_still_the_same_run(run_of, uninterrupted):
    run = run_of()
    for moment in (Moment("step", 5), Moment("step", 4), Moment("sealing", 2)):
        run.train_until_killed(moment)
    assert_equal(run.train(), uninterrupted("gpt2", TRAINING))


def test_a_checkpoint_without_a_seal_is_ignored_and_swept(run_of, uninterrupted, caplog):
    run = run_of()
    run.train_until_killed(Moment("sealing", 2))
    stage = run.work() / "1-everything"
    assert (stage / "checkpoint-4" / "model.safetensors").exists()
    assert not (stage / "checkpoint-4" / SEAL).exists()
    with caplog.at_level("INFO"):
        run.train_until_killed(Moment("step", 1))
        assert checkpoints(run.work()) == {"1-everything/checkpoint-2"}
        result = run.train()
    assert "resuming from" in caplog.text
    assert "checkpoint-4" not in caplog.text
    assert_equal(result, uninterrupted("gpt2", TRAINING))


def test_checkpoints_hold_no_pickles_of_options(run_of):
    run = run_of()
    run.train_until_killed(Moment("step", 5))
    listed = json.loads((run.work() / "1-everything" / "checkpoint-4" / SEAL).read_text())
    assert {"model.safetensors", "optimizer.pt", "scheduler.pt", "trainer_state.json"} <= set(listed)
    assert "training_args.bin" not in listed


def test_a_training_of_other_code_is_neither_up_to_date_nor_resumed(run_of, monkeypatch):
    run = run_of()
    run.train_until_killed(Moment("step", 4))
    run.train(name="finished")
    monkeypatch.setattr(checks, "TRAINING_REVISIONS", {**checks.TRAINING_REVISIONS, "trainings": 99})
    with pytest.raises(InputError, match=r"holds work of another version of relexify.*\(changed: trainings\)"):
        run.train()
    with pytest.raises(OutputError, match=r"finished was made by another version .*\(changed: trainings\)"):
        run.train(name="finished")


def test_documents_that_an_interruption_prevented_are_written_by_the_same_command(run_of, monkeypatch):
    documents: Registry[Callable[[Path], str]] = Registry("document")
    interruptions = [KeyboardInterrupt()]

    def render(folder: Path) -> str:
        if interruptions:
            raise interruptions.pop()
        return "a report"

    documents.add("card.txt", lambda folder: str(len(interruptions)))
    documents.add("report.txt", render)
    monkeypatch.setattr("relexify.storage.documents.DOCUMENTS", documents)
    run, short = run_of(), replace(TRAINING, steps=2)
    with pytest.raises(KeyboardInterrupt):
        run.train(short)
    assert not (run.output() / "report.txt").exists()
    again = run.train(short)
    assert (run.output() / "report.txt").read_text() == "a report"
    assert (run.output() / "card.txt").read_text() == "1", "it was there, and is not written again"
    notes = read_notes(run.output())
    assert again.seconds == notes["training"]["seconds"], "of the training, not of the command that wrote the report"
    assert {"card.txt", "report.txt"} <= set(notes["files"])
