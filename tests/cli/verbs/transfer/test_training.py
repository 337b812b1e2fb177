"""train, evaluate, run and compare: output, errors, and resuming."""

from __future__ import annotations

import html
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from relexify.storage.runs.checkpoints import SEAL
from relexify.training.results.curve import Curve
from relexify.training.results.result import CURVE_FILE
from tests import pico
from tests.cli.command import assert_error, relexify, run_until_killed
from tests.cli.conftest import SIZE
from tests.training.runs import assert_close, assert_curves_close, assert_same_bits, save_source

SHORT = ("--steps", 6, "--batch", 4, "--length", 16, "--set", "evaluate_every=3", "--set", "report_to=[]")
FLAT = ("--steps", 160, "--learning-rate", 1e-9, "--plan", "direct", "--set", "evaluate_every=80")
"""More options, with which a training is long enough to be judged, and changes nothing."""


@pytest.fixture
def recipe(world, tmp_path):
    """A recipe that compares three runs for a few steps."""
    file = tmp_path / "recipe.toml"
    file.write_text(
        f"""
title = "Tiny"
output = "out"
model = "{world.gpt2}"
corpus = "{world.corpus}"
[transfer]
vocab_size = {SIZE}
dictionary = "{world.dictionary}"
source_vectors = "{world.source_vectors}"
target_vectors = "{world.target_vectors}"
[training]
steps = 6
batch = 4
length = 16
learning_rate = 1e-3
evaluate_every = 2
save_every = 2
report_to = []
[compare]
runs = ["blend", "transinner", "fullrand"]
"""
    )
    return file


def without_comparison(recipe: Path) -> Path:
    plain = recipe.with_name("plain.toml")
    plain.write_text(recipe.read_text().partition("[compare]")[0])
    return plain


def bits_in(text: str) -> list[float]:
    return [float(number) for number in re.findall(r"\b\d\.\d{4}\b", text)]


def test_train_writes_a_model_with_the_score_that_it_reported(world, tmp_path):
    held_out = tmp_path / "held.txt"
    held_out.write_text("\n".join(world.corpus.read_text().splitlines()[:40]))
    command = ("train", world.gpt2, tmp_path / "out", "--corpus", world.corpus, "--held-out", held_out, *SHORT)
    trained = relexify(*command)
    assert trained.status == 0, trained.err
    assert "(selected)" not in trained.out, "there was no other candidate"
    assert "tokens in" in trained.out
    AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    AutoTokenizer.from_pretrained(tmp_path / "out")
    measured = relexify("evaluate", tmp_path / "out", "--held-out", held_out, "--set", "length=16")
    assert measured.status == 0, measured.err
    assert bits_in(measured.out)[0] == pytest.approx(bits_in(trained.out)[-1], abs=2e-4)
    assert "In windows of at most 16 tokens" in measured.out
    again = relexify(*command)
    assert again.status == 0, "the same command after it is done should say so, not fail"
    assert "up to date" in again.err


def test_evaluate_explains_how_many_bytes_it_scores(world, tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.txt").write_text(f"{'held out '.ljust(599, name)}\n" * 4)

    def score(limit: int, *names: str) -> str:
        texts = [word for name in names for word in ("--held-out", tmp_path / f"{name}.txt")]
        outcome = relexify("evaluate", world.gpt2, *texts, "--set", f"held_out_bytes={limit}", "--set", "length=64")
        assert outcome.status == 0, outcome.err
        return " ".join(outcome.out.split())

    shown = score(1_700, "a")
    assert "1,200 bytes" in shown
    assert (
        "Scored on the first whole lines of the held-out text that fit into 1,700 bytes (--set held_out_bytes=N). The"
        in shown
    )
    assert "1,700 bytes, in equal shares of its files (--set held_out_bytes=N)" in score(1_700, "a", "b")
    shown = score(2_400, "a")
    assert "2,400 bytes" in shown
    assert "Scored on all of the held-out text." in shown


def test_training_and_transfer_without_cuda_say_why_only_a_part_of_the_text_is_scored(world, tmp_path, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    (tmp_path / "held.txt").write_text("\n".join(pico.sentences(400, seed=8)))
    texts = ("--corpus", world.corpus, "--held-out", tmp_path / "held.txt")
    transferred = relexify("transfer", world.gpt2, tmp_path / "new", *texts, "--vocab-size", 330, "--method", "fvt")
    trained = relexify("train", world.gpt2, tmp_path / "out", *texts, *SHORT)
    for outcome, option in ((transferred, "held_out_bytes"), (trained, "held_out_bytes")):
        assert outcome.status == 0, outcome.err
        reason = "only 8,192 bytes of the held-out text are scored, because scoring takes long without CUDA"
        assert outcome.err.count(reason) == 1
        assert f"--set {option}=… sets another number" in outcome.err


def test_evaluate_reports_the_exact_pseudo_perplexity_of_an_encoder(world, tmp_path):
    text = tmp_path / "held.txt"
    text.write_text("\n".join(world.corpus.read_text().splitlines()[:5]))
    outcome = relexify("evaluate", world.bert, "--held-out", text, "--set", "masking=single")
    assert outcome.status == 0, outcome.err
    assert "pseudo-perplexity" in outcome.out
    assert re.search(r"only \d+ bytes are scored, too little .*: give 1,000 bytes or more as --held-out", outcome.err)
    part = relexify("evaluate", world.gpt2, "--held-out", world.corpus, "--set", "held_out_bytes=300")
    assert "too little to rely on the score: score more of it (--set held_out_bytes=2000)" in part.err
    words = relexify("evaluate", world.bert, "--held-out", text, "--set", "masking=words")
    assert words.status == 0, words.err
    assert "bits per byte of whole words" in words.out
    other = relexify("evaluate", world.bert, "--held-out", text, "--set", "masking=letters")
    assert other.status == 2
    assert "choose one of strided, single, words" in other.err
    task = relexify("evaluate", world.bert, "--task", "nli", "--train", text, "--test", text, "--set", "masking=words")
    assert task.status == 2
    assert "there is no key 'masking' in [tasks]" in task.err


def test_killed_training_resumes_bit_for_bit(world, tmp_path, cache):
    options = ("--corpus", world.corpus, "--steps", 20, "--batch", 4, "--length", 16, "--set", "save_every=5")
    options += ("--set", "evaluate_every=10", "--set", "report_to=[]")
    command = ("train", world.gpt2, tmp_path / "killed", *options)
    checkpoint = tmp_path / "killed.training" / "*" / "checkpoint-*" / "sealed.json"
    run_until_killed(*command, cache=cache, when=checkpoint)
    assert not (tmp_path / "killed").exists()
    again = relexify(*command)
    assert again.status == 0, again.err
    assert "resuming from" in again.err
    assert relexify("train", world.gpt2, tmp_path / "whole", *options).status == 0
    assert_same_bits(tmp_path / "killed", tmp_path / "whole")
    assert not list(tmp_path.glob("*.training"))


def test_run_transfers_and_trains_in_one_go(recipe, tmp_path):
    outcome = relexify("run", without_comparison(recipe), "--set", "training.steps=4", "--set", "transfer.method=fvt")
    assert outcome.status == 0, outcome.err
    notes = json.loads((tmp_path / "out" / "relexify.json").read_text())
    assert notes["method"] == "fvt"
    assert notes["training"]["steps"] == 4
    assert re.search("Do not compare these scores with|On the same text in the target language", outcome.out)
    assert outcome.out.index("random rows: drawn") < outcome.out.index("\nfvt "), "in the order of relexify transfer"
    assert sorted(path.name for path in tmp_path.glob("out*")) == ["out"], "work was left behind"
    assert relexify("inspect", tmp_path / "out").status == 0


def test_run_ends_with_a_verdict_and_a_command_that_runs(world, tmp_path):
    file = tmp_path / "recipe.toml"
    table = "[training]\nbatch = 4\nlength = 16\nevaluate_every = 3\nreport_to = []\n"
    file.write_text(f'output = "out"\nmodel = "{world.gpt2}"\ncorpus = "{world.corpus}"\n{table}')
    given = ("--set", "training.learning_rate=0.02", "--device", "cpu")
    outcome = relexify("run", file, *given, "--set", "training.steps=6")
    assert "The model has improved, but in too short a training to judge it by." in outcome.out
    estimate, command = re.findall(r"^  relexify (.*)$", outcome.out, re.MULTILINE)
    assert estimate == f"estimate {tmp_path / 'out'} --length 64 --measure"
    sizes = ("--set", "training.steps=1000", "--set", "training.batch=64", "--set", "training.length=64")
    changed = (*sizes, "--set", f"output={tmp_path}/out-1000")
    assert sorted(shlex.split(command)) == sorted(["run", *map(str, (file, *given, *changed))])
    assert relexify(*shlex.split(command), "--dry-run").status == 0


def test_train_ends_with_a_verdict_and_a_command_that_runs(world, tmp_path):
    """Of a training that is too short: the command repeats all options but its sizes, with another output."""
    given = ("--corpus", world.corpus, *SHORT, "--learning-rate", 0.02)
    outcome = relexify("train", world.gpt2, tmp_path / "out", *given)
    assert "The model has improved, but in too short a training to judge it by." in outcome.out
    assert re.search("It has seen only [0-9]+ tokens", outcome.out)
    estimate, command = re.findall(r"^  relexify (.*)$", outcome.out, re.MULTILINE)
    assert estimate == f"estimate {tmp_path / 'out'} --length 64 --measure"
    changed = list(map(str, given))
    for size in ("--steps", "--batch", "--length"):
        del changed[changed.index(size) : changed.index(size) + 2]
    expected = ["train", str(world.gpt2), f"{tmp_path / 'out'}-1000", *changed, "--length", "64"]
    assert sorted(shlex.split(command)) == sorted(expected)
    assert relexify(*shlex.split(command), "--dry-run").status == 0
    assert relexify(*shlex.split(estimate.removesuffix(" --measure"))).status == 0
    page = html.unescape(re.sub(r"</?span[^>]*>", "", (tmp_path / "out" / "report.html").read_text()))
    assert f"relexify {command}".replace(f"{tmp_path / 'out'}-1000", "out-1000") in page


def test_scores_of_a_training_are_compared_with_those_of_the_transfer(world, transferred, tmp_path):
    other = ("--corpus", world.corpus, *SHORT, "--set", "held_out_bytes=100")
    short = relexify("train", transferred[0], tmp_path / "short", *other)
    assert "Do not compare these scores with those of the transfer" in short.out
    assert "held-out text are scored, too few for a verdict: score more of it (--set held_out_bytes=2000)" in short.err
    whole = ("--corpus", world.corpus, *SHORT, *FLAT, "--set", "length=64")
    outcome = relexify("train", transferred[0], tmp_path / "whole", *whole)
    assert "On the same text in the target language, the original model and tokenizer need" in outcome.out
    assert "hardly improves any more" in outcome.out
    assert f"  relexify inspect {tmp_path / 'whole'}" in outcome.out
    command = f"relexify inspect {tmp_path / 'whole'} --since {transferred[0]} shows"
    assert (
        f"160 steps of training changed the embeddings since; {command}" in relexify("inspect", tmp_path / "whole").out
    )
    assert "training changed" not in relexify("inspect", transferred[0]).out
    assert relexify("compress", tmp_path / "whole", tmp_path / "small").status == 0
    assert "160 steps of training changed the embeddings since.\n" in relexify("inspect", tmp_path / "small").out


def test_a_short_held_out_text_is_named_by_its_option_in_either_language(world, transferred, tmp_path):
    (tmp_path / "source.txt").write_text("a short line of the first language\nanother\n")
    (tmp_path / "target.txt").write_text("a short line of the second\n")
    texts = ("--corpus", world.corpus, "--source-corpus", world.source_corpus)
    texts += ("--held-out", tmp_path / "target.txt", "--source-held-out", tmp_path / "source.txt", *SHORT)
    for command in (("train", world.gpt2), ("bilingual", world.gpt2, transferred[0])):
        outcome = relexify(*command, tmp_path / command[0], *texts)
        assert outcome.status == 0, outcome.err
        for size, option in ((27, "--held-out"), (43, "--source-held-out")):
            assert re.search(
                rf"only {size} bytes of held-out text.* give 1,000 bytes or more as {option}\n", outcome.err
            )


def test_text_in_another_language_than_that_of_the_transfer_is_reported_before_training(world, transferred, tmp_path):
    for corpus, warned in ((world.source_corpus, True), (world.corpus, False)):
        outcome = relexify("train", transferred[0], tmp_path / "out", "--corpus", corpus, *SHORT, "--dry-run")
        assert outcome.status == 0, outcome.err
        assert ("check that it is in the language of the transfer" in outcome.err) == warned, outcome.err


@pytest.mark.parametrize(
    "verb",
    [
        "train",
        "train --dry-run",
        "evaluate",
        "transfer",
        "transfer --dry-run",
        "advise",
        "compress",
        "prune",
        "geometry",
    ],
)
def test_a_transfer_with_the_tokens_of_another_is_rejected(world, transferred, tmp_path, verb):
    folder = pico.permute_tokens(shutil.copytree(transferred[0], tmp_path / "graft"))
    name, *flags = verb.split()
    output, text = tmp_path / "out", ("--corpus", world.corpus)
    given = {
        "train": (output, *text, *SHORT),
        "evaluate": ("--held-out", world.corpus),
        "transfer": (output, *text, "--method", "random", "--vocab-size", "300", "--set", "score=false"),
        "advise": (*text, *SHORT[:6], "--vocab-size", "300", "--output", output),
        "compress": (output,),
        "geometry": ("--output", tmp_path / "points.svg"),
        "prune": (output, *text),
    }[name]
    outcome = relexify(name, folder, *given, *flags)
    assert outcome.status == 2
    assert "is not the one that the embeddings were built for" in outcome.err
    assert f"relexify check {folder}" in outcome.err.replace("\n", " ")
    (folder / "mixture.safetensors").unlink()
    assert relexify(name, folder, *given, *flags).status == 0


@pytest.fixture
def headless(transferred, tmp_path) -> Path:
    """A transfer without a head."""
    folder = shutil.copytree(transferred[0], tmp_path / "headless")
    AutoModelForCausalLM.from_pretrained(folder).base_model.save_pretrained(folder)
    return folder


@pytest.mark.parametrize("flags", [(), ("--dry-run",)])
def test_a_transfer_with_the_tokens_of_another_gets_no_head(world, headless, tmp_path, flags):
    given = (tmp_path / "out", "--corpus", world.corpus, *SHORT, "--add-head", *flags)
    assert relexify("train", headless, *given).status == 0
    reason = "is not the one that the embeddings were built for"
    assert_error(relexify("train", pico.permute_tokens(headless), *given, "--overwrite"), reason)


@pytest.mark.parametrize("flags", [("--dry-run",), ("--overwrite",), ("--dry-run", "--add-head")])
def test_a_model_with_nan_is_rejected_before_training_and_in_a_dry_run(world, headless, tmp_path, flags):
    folder = shutil.copytree(headless if "--add-head" in flags else world.gpt2, tmp_path / "broken")
    weights = load_file(folder / "model.safetensors")
    (name,) = (name for name in weights if name.endswith("h.0.ln_1.weight"))
    weights[name][3] = float("nan")
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    outcome = relexify("train", folder, tmp_path / "out", "--corpus", world.corpus, *SHORT, *flags)
    assert outcome.status == 2
    assert "transformer.h.0.ln_1.weight of GPT2LMHeadModel has NaN or infinite values" in outcome.err


def test_a_dry_run_says_how_to_measure_the_time(world, tmp_path):
    given = ("--corpus", world.corpus, "--steps", 12, "--batch", 2, "--length", 64)
    outcome = relexify("train", world.gpt2, tmp_path / "out", *given, "--dry-run")
    assert re.search(r"time +less than a minute", outcome.out)
    (command,) = re.findall(r"to measure its time +relexify (.*)$", outcome.out, re.MULTILINE)
    measured = relexify(*shlex.split(command))
    assert "in 12 steps of 2 x 64" in measured.out
    assert "the training takes about" in measured.out


def test_a_dry_run_estimates_the_time_of_a_long_training(world, tmp_path):
    given = ("--corpus", world.corpus, "--steps", 10_000_000, "--batch", 64, "--length", 64)
    outcome = relexify("train", world.gpt2, tmp_path / "out", *given, "--dry-run", "--json")
    assert re.match(r"about \d+ .* on this machine, without scores; ", json.loads(outcome.out)["plan"]["time"])


@pytest.mark.parametrize(("interval", "scored"), [(1, "every step"), (3, "every 3 steps")])
def test_a_dry_run_says_how_often_the_model_is_scored(world, tmp_path, interval, scored):
    texts, every = ("--corpus", world.corpus, "--length", 16), ("--set", f"evaluate_every={interval}")
    outcome = relexify("train", world.gpt2, tmp_path / "out", *texts, *every, "--dry-run", "--json")
    assert json.loads(outcome.out)["plan"]["scored"] == scored


def test_the_training_that_a_dry_run_says_how_to_measure_has_all_of_its_options(world, tmp_path):
    sizes = ("--steps", 12, "--batch", 2, "--length", 64)
    settings = ["lora_rank=4", "micro_batch=1", "clip=0.5", "evaluate_every=4", "lora_merged=false"]
    given = [*(f"--set={setting}" for setting in settings), "--set", "schedule=cosine", "--learning-rate", 0.001]
    outcome = relexify("train", world.gpt2, tmp_path / "out", "--corpus", world.corpus, *sizes, *given, "--dry-run")
    (command,) = re.findall(r"to measure its time +relexify (.*)$", outcome.out, re.MULTILINE)
    words = shlex.split(command)
    found = [value for name, value in pairwise(words) if name == "--set"]
    assert sorted(found) == sorted([*settings, 'schedule="cosine"', "learning_rate=0.001"])
    measured = relexify(*words)
    assert measured.status == 0, measured.err
    assert "in 12 steps of 2 x 64" in measured.out
    assert "the training takes about" in measured.out


def test_the_command_after_a_training_fits_its_verdict(world, transferred, tmp_path):
    held_out = tmp_path / "held.txt"
    held_out.write_text("\n".join(world.corpus.read_text().splitlines()[:20]))
    texts = ("--corpus", world.corpus, "--held-out", held_out)
    finished = relexify("train", transferred[0], tmp_path / "out", *texts, *SHORT, *FLAT)
    assert f"  relexify evaluate {tmp_path / 'out'} --held-out {held_out}" in finished.out
    rates = ("--plan", "direct", "--learning-rate", 0.5, "--set", "training.learning_rate=1")
    worse = relexify("train", world.gpt2, tmp_path / "fast", *texts, *SHORT, *rates)
    assert "Training made the model worse." in worse.out
    assert f"{tmp_path / 'fast'}-slower" in worse.out
    (command,) = re.findall(r"^  relexify .*$", worse.out, re.MULTILINE)
    assert "--learning-rate 2.5e-01" in command
    assert "learning_rate=1" not in command, "a setting wins over an option"
    assert "--set evaluate_every=3" in command


def test_after_overfitting_fewer_steps_are_proposed(world, tmp_path):
    few, held_out = tmp_path / "few.txt", tmp_path / "held.txt"
    lines = world.corpus.read_text().splitlines()
    few.write_text("\n".join(lines[:4]))
    held_out.write_text("\n".join(lines[-20:]))
    options = ("--batch", 4, "--length", 16, "--plan", "direct", "--learning-rate", 0.03, "--set", "evaluate_every=4")
    texts = ("--corpus", few, "--held-out", held_out, "--set", "report_to=[]")
    outcome = relexify("train", world.gpt2, tmp_path / "out", *texts, *options, "--steps", 40)
    assert "The model is overfitting." in outcome.out, outcome
    best = Curve.load(tmp_path / "out" / CURVE_FILE).best.step
    (command,) = re.findall(r"^  relexify (.*)$", outcome.out, re.MULTILINE)
    assert f"train {world.gpt2} {tmp_path / 'out'}-{best} " in command
    assert f"--steps {best} " in command
    assert relexify(*shlex.split(command), "--dry-run").status == 0


def test_inspect_shows_how_far_training_has_moved_the_embeddings(world, transferred, tmp_path):
    before, _ = transferred
    outcome = relexify("train", before, tmp_path / "trained", "--corpus", world.corpus, *SHORT)
    assert outcome.status == 0, outcome.err
    outcome = relexify("inspect", tmp_path / "trained", "--since", before)
    assert outcome.status == 0, outcome.err
    assert "distance" in outcome.out
    changes = json.loads(relexify("inspect", tmp_path / "trained", "--since", before, "--json").out)["changes"]
    assert len(changes) == 10
    assert 0 < max(change["distance"] for change in changes) < 1
    assert_error(relexify("inspect", tmp_path / "trained", "ra", "--since", before), "leave out the tokens")
    assert_error(relexify("inspect", tmp_path / "trained", "--since", world.gpt2), "two states of one model")


def test_a_finished_run_is_found_again_and_another_one_does_not_replace_it(recipe, tmp_path):
    command = ("run", without_comparison(recipe), "--set", "transfer.method=fvt")
    assert relexify(*command, "--set", "training.steps=4").status == 0
    files = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()}
    again = relexify(*command, "--set", "training.steps=4")
    assert again.status == 0, again.err
    assert "is up to date" in again.err
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()} == files
    assert_error(relexify(*command, "--set", "training.steps=5"), "exists already", "--overwrite")
    assert relexify(*command, "--set", "training.steps=5", "--overwrite").status == 0


def test_run_leaves_folders_alone_that_it_never_wrote(recipe, tmp_path):
    plain = without_comparison(recipe)
    plain.write_text(plain.read_text().replace("[transfer]", "[ignored]").partition("[ignored]")[0]
                     + "[training]" + plain.read_text().partition("[training]")[2])  # fmt: skip
    (tmp_path / "out.work").mkdir()
    (tmp_path / "out.work" / "thesis.txt").write_text("mine")
    for more in ((), ("--overwrite",)):
        assert_error(relexify("run", plain, "--set", "training.steps=2", *more), "out.work", "relexify did not write")
        assert (tmp_path / "out.work" / "thesis.txt").read_text() == "mine"


def test_a_comparison_logs_once_what_is_the_same_in_all_runs(recipe, world, tmp_path):
    dictionary = tmp_path / "words.tsv"
    dictionary.write_text(world.dictionary.read_text() + "-ly\tkwa\n")
    own = recipe.read_text().replace(str(world.dictionary), str(dictionary)).replace("learning_rate = 1e-3\n", "")
    recipe.write_text(own.replace('["blend", "transinner", "fullrand"]', '["blend", "fvt"]\nseeds = [0, 1]'))
    outcome = relexify("compare", recipe)
    assert outcome.status == 0, outcome.err
    lines = outcome.err.splitlines()
    for once in ("an entry with an affix", "tokens of text, ", "text is seen", "too small for the optimiser Muon"):
        assert sum(once in line for line in lines) == 1, once
    for once in ("learning rates: ", "stage everything: trains all "):
        assert sum(once in line for line in lines) == 1, once
    for run in ("blend", "fvt"):
        assert [line for line in lines if line.startswith(f"· {run}, ")] == [f"· {run}, seed {each}" for each in (0, 1)]
    # The results of each run are shown, also if they are the same.
    assert sum(line.startswith("· step 6: ") for line in lines) == 4
    # So is how long each took, of work that takes seconds on a busy machine.
    repeated = {line for line in lines if lines.count(line) > 1 and ": done in " not in line}
    assert {line for line in repeated if not line.startswith(("· step ", "· the unigram prior"))} == set()


def test_compare_shows_all_runs_and_keeps_finished_ones(recipe, tmp_path):
    outcome = relexify("compare", recipe)
    assert outcome.status == 0, outcome.err
    for name in ("blend", "transinner", "fullrand", "not within", "unigram prior"):
        assert name in outcome.out
    assert "this is too little training to conclude anything" in outcome.out
    assert "blend has it, transinner, fullrand do not" in outcome.out
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"comparison.json", "comparison.md", "curves.svg", "recipe.toml", "runs"} <= written
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "out" / "runs").glob("*/curve.json")}
    assert len(times) == 3
    more = relexify("compare", recipe, "--set", 'compare.runs=["blend", "fvt"]')
    assert more.status == 0, more.err
    assert (tmp_path / "out" / "runs" / "fvt-seed0" / "curve.json").exists()
    assert all(path.stat().st_mtime_ns == time for path, time in times.items()), "a finished run was repeated"


def test_compare_rejects_runs_of_another_recipe_and_repeats_them_with_overwrite(recipe, tmp_path):
    one = ("--set", 'compare.runs=["fullrand"]')
    assert relexify("compare", recipe, *one).status == 0
    changed = (*one, "--set", "training.learning_rate=0.002")
    assert_error(relexify("compare", recipe, *changed), "fullrand-seed0", "another recipe", "--overwrite")
    assert relexify("compare", recipe, *changed, "--overwrite").status == 0


def test_compare_judges_by_the_best_model_where_that_is_kept(recipe, tmp_path):
    outcome = relexify(
        "compare", recipe, "--set", 'compare.runs=["fullrand", "random"]', "--set", "training.patience=9"
    )
    assert outcome.status == 0, outcome.err
    assert json.loads((tmp_path / "out" / "comparison.json").read_text())["keeps_best"] is True
    assert "another run's best score" in outcome.out
    assert "keeps the model with its best score" in (tmp_path / "out" / "comparison.md").read_text()


def test_subsamples_train_tokenizer_and_vectors_on_the_same_part(recipe, tmp_path):
    changes = ("--set", 'compare.runs=["fullrand"]', "--set", "compare.subsamples=[9000, 18000]")
    outcome = relexify("compare", recipe, *changes)
    assert outcome.status == 0, outcome.err
    folders = sorted(path.name for path in (tmp_path / "out").iterdir() if path.is_dir())
    assert len(folders) == 3
    assert "runs" in folders


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("--length", 100_000), ("--length 100000 is",)),
        (("--steps", 0), ("--steps 0 is",)),
        (("--plan", "embedings"), ("--plan embedings is not possible", "embeddings-first")),
        (("--set", "precision=half"), ("precision", "bfloat16")),
        (("--batch", 5, "--set", "micro_batch=2"), ("batch of 5", "parts of 2")),
        (("--learning-rate", 0), ("--learning-rate 0",)),
    ],
)
def test_impossible_options_are_rejected_before_any_work(world, tmp_path, change, words):
    command = ("train", world.gpt2, tmp_path / "out", "--corpus", world.corpus, *SHORT, *change)
    assert_error(relexify(*command), *words)
    assert not list(tmp_path.iterdir())


def test_models_and_texts_that_cannot_be_trained_are_rejected(world, tmp_path):
    out, text = tmp_path / "out", tmp_path / "short.txt"
    text.write_text("ba la\n" * 3)
    assert_error(relexify("train", world.t5, out, "--corpus", world.corpus, *SHORT), "encoder-decoder")
    held_out = ("--held-out", world.corpus)
    assert_error(relexify("train", world.gpt2, out, "--corpus", text, *held_out, *SHORT), "one sequence of 16")
    assert_error(relexify("train", world.gpt2, out, "--corpus", tmp_path / "none.txt", *SHORT), "none.txt")
    assert_error(relexify("run", tmp_path / "none.toml"), "none.toml", "cannot be read")
    assert_error(relexify("evaluate", tmp_path / "none", "--held-out", world.corpus), "none")


@pytest.mark.parametrize("verb", ["run", "compare"])
@pytest.mark.parametrize("reason", ["length", "kind", "headless"])
def test_a_model_that_cannot_be_trained_is_rejected_before_the_transfer(recipe, world, tmp_path, cache, verb, reason):
    if reason == "headless":
        shutil.copytree(world.gpt2, tmp_path / "body")
        config = json.loads((tmp_path / "body" / "config.json").read_text())
        (tmp_path / "body" / "config.json").write_text(json.dumps({**config, "architectures": ["GPT2Model"]}))
    change, words = {
        "length": ("training.length=100000", ("`length=100000`", "GPT2LMHeadModel", "give 64 or less")),
        "kind": (f"model={world.t5}", ("is an encoder-decoder", "only decoders")),
        "headless": (f"model={tmp_path / 'body'}", ("has no language-modelling head", "only decoders")),
    }[reason]
    file = recipe if verb == "compare" else without_comparison(recipe)
    found = set(cache.rglob("*"))
    assert_error(relexify(verb, file, "--set", change), *words)
    assert set(cache.rglob("*")) == found, "a step of the transfer was done"
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "out.work").exists()


def test_a_comparison_needs_runs_and_takes_no_stages(recipe):
    stages = recipe.with_name("stages.toml")
    stage = '[[training.stages]]\nname = "one"\nsteps = 6\n[compare]'
    stages.write_text(recipe.read_text().replace("[compare]", stage))
    assert_error(relexify("compare", stages), "[[training.stages]]", "plans")
    assert_error(relexify("compare", without_comparison(recipe)), "[compare]")


def test_torchrun_on_two_machines_trains_the_model_that_one_process_trains_and_writes_it_once(world, tmp_path, cache):
    """Both agents run here. On each, the only process is the first of its machine, and one of them alone may write."""
    source = save_source(tmp_path / "source", "gpt2", dropout=False)
    options = ("--corpus", world.corpus, *SHORT, "--set", "save_every=2")
    alone = relexify("train", source, tmp_path / "alone", *options)
    assert alone.status == 0, alone.err
    with socket.socket() as free:
        free.bind(("localhost", 0))
        endpoint = f"localhost:{free.getsockname()[1]}"
    machines = ["--nnodes", "2", "--nproc-per-node", "1", "--local-addr", "localhost"]
    meeting = ["--rdzv-backend", "c10d", "--rdzv-id", "test", "--rdzv-endpoint", endpoint]
    verb = ["-m", "relexify", "train", source, tmp_path / "out", *options]
    command = [sys.executable, "-m", "torch.distributed.run", *machines, *meeting, *map(str, verb)]
    environment = {**os.environ, "RELEXIFY_CACHE": str(cache), "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    agents = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
        for _ in range(2)
    ]
    try:
        printed = [agent.communicate(timeout=240) for agent in agents]
    finally:
        for agent in agents:
            agent.kill()
    assert [agent.returncode for agent in agents] == [0, 0], printed
    assert sum(out.count("The model is in") for out, _ in printed) == 1, "every process prints"
    assert_close(tmp_path / "out", tmp_path / "alone")
    assert_curves_close(*(Curve.load(tmp_path / name / CURVE_FILE) for name in ("out", "alone")))
    assert {path.name for path in tmp_path.iterdir()} == {"source", "alone", "out"}, "work was left behind"
    AutoModelForCausalLM.from_pretrained(tmp_path / "out")


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds the processes of torchrun in /proc")
def test_a_killed_run_of_torchrun_resumes_with_another_number_of_processes(world, tmp_path, cache):
    source = save_source(tmp_path / "source", "gpt2", dropout=False)
    options = ("--corpus", world.corpus, *SHORT, "--steps", 60, "--set", "save_every=2")
    assert relexify("train", source, tmp_path / "alone", *options).status == 0
    environment = {**os.environ, "RELEXIFY_CACHE": str(cache), "OMP_NUM_THREADS": "1"}
    verb = ["-m", "relexify", "train", source, tmp_path / "out", *options]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]
    together = subprocess.Popen([*torchrun, "2", *map(str, verb)], env=environment, stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 240
        while not list(tmp_path.glob(f"out.training/*/checkpoint-*/{SEAL}")) and time.monotonic() < end:
            assert together.poll() is None, "the training was finished before it could be killed"
            time.sleep(0.01)
        ranks = Path(f"/proc/{together.pid}/task/{together.pid}/children").read_text().split()
        os.kill(int(ranks[-1]), signal.SIGKILL)
        assert together.wait(120) != 0  # torchrun ends the others
    finally:
        together.kill()
    assert not (tmp_path / "out").exists()
    resumed = relexify("train", source, tmp_path / "out", *options)
    assert resumed.status == 0, resumed.err
    assert "resum" in resumed.err
    assert_close(tmp_path / "out", tmp_path / "alone")
    assert_curves_close(*(Curve.load(tmp_path / name / CURVE_FILE) for name in ("out", "alone")))


def test_a_dry_run_says_how_many_lines_are_left_out_because_they_are_held_out(world, tmp_path):
    lines = world.corpus.read_text().splitlines()
    held_out = tmp_path / "held.txt"
    held_out.write_text("\n".join(lines[:50]))
    count = sum(line in set(lines[:50]) for line in lines)
    said = f"{count} of {len(lines)} lines are left out, because {held_out} has them"
    texts = ("--corpus", world.corpus, "--held-out", held_out)
    file = tmp_path / "recipe.toml"
    table = "[transfer]\nmethod = 'fvt'\nvocab_size = 300\n"
    file.write_text(
        f'output = "out"\nmodel = "{world.gpt2}"\ncorpus = "{world.corpus}"\nheld_out = "{held_out}"\n{table}'
    )
    for command in (
        ("transfer", world.gpt2, tmp_path / "out", *texts, "--vocab-size", 300, "--method", "fvt"),
        ("train", world.gpt2, tmp_path / "out", *texts, *SHORT),
        ("run", file),
    ):
        outcome = relexify(*command, "--dry-run", "--json")
        assert outcome.status == 0, outcome.err
        assert said in json.loads(outcome.out)["plan"]["text"]
