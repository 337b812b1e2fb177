"""The recipe tables `[training]` and `[fresh]` as steps of a run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import relexify.training.recipe  # noqa: F401 (registers the steps)
from relexify.errors import InputError
from relexify.pretrained.loading import load_model
from relexify.pretrained.parameters.fresh import fresh_model
from relexify.steps import STEPS, RunContext, Variant, run_seed
from relexify.text import Corpus
from relexify.training.options import Stage
from tests.training.runs import TRAINING, Run, assert_same_bits

SHORT = replace(TRAINING, steps=2, evaluate_every=2, save_every=None)


def context_of(run: Run, **tables: Any) -> RunContext:
    steps = sorted((STEPS[table] for table in tables), key=lambda step: step.order)
    corpus, held_out = Corpus.open(run.corpus), Corpus.open(run.held_out)
    return RunContext(str(run.source), corpus, held_out, tables, seed=run_seed(steps, tables))


def test_the_training_step_writes_what_train_writes_and_returns_at_once_when_called_again(run_of):
    run = run_of()
    expected = run.train(SHORT, "expected")
    context = context_of(run, training=SHORT)
    result = STEPS["training"].run(SHORT, context, str(run.source), run.output())
    assert_same_bits(run.output(), expected.output)
    assert result.curve == expected.curve
    written = (run.output() / "model.safetensors").stat().st_mtime_ns
    again = STEPS["training"].run(SHORT, context, str(run.source), run.output())
    assert (again.curve, (run.output() / "model.safetensors").stat().st_mtime_ns) == (result.curve, written)
    assert STEPS["training"].load(run.output()).curve == result.curve


def test_a_training_that_does_not_fit_the_model_is_rejected_unless_a_step_before_changes_the_model(run_of):
    run = run_of()
    long = replace(SHORT, length=100_000)
    with pytest.raises(InputError, match="`length=100000"):
        STEPS["training"].check(long, context_of(run, training=long))
    STEPS["training"].check(long, context_of(run, training=long, fresh={"n_positions": 100_000}))
    with pytest.raises(InputError, match="0 steps"):
        STEPS["training"].validate(replace(SHORT, stages=(Stage("one", 0),)), {})


def test_a_fresh_model_has_the_changed_config_and_the_seed_of_the_training(run_of):
    run = run_of()
    changes = {"n_layer": 1}
    training = replace(SHORT, seed=7)
    context = context_of(run, fresh=changes, training=training)
    output = run.output("fresh")
    assert STEPS["fresh"].run(changes, context, str(run.source), output) == output
    made, expected = load_model(output), fresh_model(run.source, changes, seed=7)
    assert made.config.n_layer == 1
    assert all(torch.equal(value, expected.state_dict()[name]) for name, value in made.state_dict().items())
    written = modified(output)
    STEPS["fresh"].run(changes, context, str(run.source), output)
    assert modified(output) == written


def test_the_runs_of_a_comparison_do_not_decide_for_themselves_which_model_they_keep(run_of):
    vary, text = STEPS["training"].comparison.vary, Corpus.open(run_of().corpus)
    variant = Variant(3, text, text)
    own = replace(SHORT, plan="relexify", learning_rate=None)
    assert (vary(own, variant).seed, vary(own, variant).keep_best) == (3, False)
    assert vary(replace(own, patience=2), variant).keep_best


def modified(folder: Path) -> int:
    return (folder / "model.safetensors").stat().st_mtime_ns
