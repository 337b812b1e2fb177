"""estimate: what a training costs, on the command line."""

from __future__ import annotations

import json
import re
import shutil

from relexify.progress import format_duration
from relexify.training.cost.estimate import estimate
from relexify.training.cost.measuring import Measured
from relexify.training.options import Training
from tests.cli.command import relexify


def test_a_config_alone_is_estimated_and_measured(world, tmp_path):
    shutil.copy(world.gpt2 / "config.json", tmp_path)
    size = ("--tokens", "1e5", "--batch", "4", "--length", "16")
    shown = relexify("estimate", tmp_path, *size, "--gpu", "a100", "--measure")
    assert shown.status == 0, shown.err
    assert "100,032 tokens in 1,563 steps of 4 x 16." in shown.out
    assert "Estimates for A100 GPUs, at 35% of their peak" in shown.out
    assert "as requested" in shown.out
    assert "--set lora_rank=16 --set inner_precision=bfloat16 --set checkpoint_activations=true" in shown.out
    assert "add --measure" not in shown.out
    last = shown.out.splitlines()[-1]
    assert last.startswith("Measured on the CPU of this machine, in 3 steps of 2 x 16 with random weights and tokens: ")
    assert re.search(r"tokens/s, so that the training takes about .* here, without scoring\.", last)
    assert re.search(
        r"the estimate of relexify train assumes 72%, which would take .*\. One A100, as in the table,", last
    )
    # Not the scores of random weights, and nothing about a run that the user did not start.
    assert [line for line in shown.err.splitlines() if "loading torch" not in line] == []
    assert "add --measure" in relexify("estimate", tmp_path, *size).out
    first = json.loads(relexify("estimate", tmp_path, *size, "--json").out)["estimates"][0]
    assert f"{first['parameters'] / 1e6:.2f} million parameters" in shown.out
    assert (first["gpus"], first["fits"], first["tokens"]) == (1, True, 100_032)
    other = json.loads(relexify("estimate", tmp_path, *size, "--set", "batch=8", "--json").out)["estimates"][0]
    assert other["tokens"] == 100_096
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]


def test_impossible_estimates_are_rejected(world, rejects):
    rejects(("estimate", world.gpt2, "--tokens", "nan"), "--tokens nan is not possible")
    rejects(("estimate", world.gpt2, "--gpu", "h20"), "did you mean 'h200'")
    rejects(("estimate", world.gpt2, "--plan", "magic"), "--plan magic is not possible: choose one of relexify")
    stages = 'stages=[{name = "all", steps = 9, trains = "everything", learning_rate = 1e-4}]'
    rejects(("estimate", world.gpt2, "--set", stages, "--tokens", "1e6"), "the stages have their own: leave out one")


def test_own_stages_have_their_own_steps(world):
    stages = 'stages=[{name = "all", steps = 9, trains = "everything", learning_rate = 1e-4}]'
    shown = relexify("estimate", world.gpt2, "--set", stages, "--batch", "4", "--length", "16")
    assert "576 tokens in 9 steps of 4 x 16" in shown.out


def test_what_is_measured_does_not_depend_on_the_number_of_gpus(world, monkeypatch):
    measured = Measured("CPU", 3, 2, 100.0, None, 3.5e10)
    monkeypatch.setattr("relexify.training.cost.measuring.measure_training", lambda *_: measured)
    # With so few tokens per step, most operations are those of Muon.
    size = ("--batch", "8", "--length", "8", "--set", "optimiser=muon", "--measure")
    lines = [relexify("estimate", world.gpt2, *size, "--gpus", gpus).out.splitlines()[-1] for gpus in ("1", "8")]
    assert lines[0].startswith("Measured")
    assert "of a large matrix product (35.0 GFLOP/s)" in lines[0]
    assert lines[0] == lines[1]


def test_a_measurement_is_compared_with_the_estimates_for_this_machine_and_for_a_gpu(world, monkeypatch):
    peak = 1e6
    measured = Measured("CPU", 3, 2, 100.0, None, peak)
    monkeypatch.setattr("relexify.training.cost.measuring.measure_training", lambda *_: measured)
    shown = relexify("estimate", world.gpt2, "--steps", "100", "--batch", "8", "--length", "8", "--measure").out
    (one, *_) = estimate(world.gpt2, Training(steps=100, batch=8, length=8))
    last = shown.splitlines()[-1]
    assert "takes about 1 min 4 s here" in last
    assert f"assumes 72%, which would take {format_duration(one.operations / (0.72 * peak))}. " in last
    assert f"is estimated to be {one.tokens_per_second / 100:,.0f} times as fast." in last
