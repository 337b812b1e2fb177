"""relexify advise from end to end, on a tiny real model."""

from __future__ import annotations

import inspect
import json
import shlex
import shutil
from pathlib import Path

from relexify.cli.verbs.transfer.advise import advise
from relexify.cli.verbs.transfer.transfer import transfer
from relexify.recipes.advise.options import Advise
from relexify.recipes.compare import run as comparing
from relexify.systems.transfer.options import Transfer
from tests.cli.command import assert_error, relexify


def test_an_advice_replaces_none_of_its_inputs(world, tmp_path):
    folder = tmp_path / "advice"
    folder.mkdir()
    text = Path(shutil.copy(world.corpus, folder))
    options = ("--corpus", text, "--vocab-size", 330, "--output", folder, "--overwrite")
    assert_error(relexify("advise", world.gpt2, *options), f"{folder} is, or contains, the input {text}")
    assert text.exists()


def test_a_dry_run_of_an_advice_names_what_would_be_tried_and_writes_nothing(world, tmp_path):
    output = tmp_path / "advice"
    command = ("advise", world.gpt2, *world.text, "--dictionary", world.dictionary, "--output", output)
    command += ("--text-bytes", 15_000, "--dry-run", "--json")
    plan = json.loads(relexify(*command, "--method", "fvt", "--method", "blend").out)["plan"]
    assert plan["tried"] == "fvt, blend, blend-without-dictionary, random"
    assert plan["trained"] == "each of them for 20 steps of 4 x 128 tokens"
    assert plan["text"].endswith(", 15 kB of it are used (--text-bytes)")
    assert plan["evidence"] == "dictionary"
    assert plan["time"].startswith("trainings: less than a minute for each; ")
    assert json.loads(relexify(*command, "--steps", 0).out)["plan"]["trained"].startswith("nothing: held-out words")
    assert not output.exists()


def test_advice_ranks_methods_prints_the_command_and_is_found_again(world, tmp_path, monkeypatch):
    output = tmp_path / "advice"
    arguments = ("advise", world.gpt2, *world.text, "--dictionary", world.dictionary, "--output", output)
    arguments += ("--source-corpus", world.source_corpus, "--set", "added_tokens=20", "--text-bytes", 15_000)
    arguments += (
        "--method",
        "fvt",
        "--method",
        "blend",
        "--method",
        "fvt",
        "--steps",
        2,
        "--batch",
        2,
        "--length",
        16,
        "--json",
    )
    outcome = relexify(*arguments)
    assert outcome.status == 0, outcome.err
    plan = "4 methods, each trained for 2 steps: fvt, blend; to compare with, blend-without-dictionary, random"
    assert plan in outcome.err
    assert outcome.err.index(plan) < outcome.err.index("building fvt")
    found = json.loads(outcome.out)
    runs = found["advice"]["runs"]
    assert {run["name"] for run in runs} == {"fvt", "blend", "blend-without-dictionary", "random"}
    assert [run["after"] for run in runs] == sorted(run["after"] for run in runs)
    assert found["best"] == next(run["name"] for run in runs if run["name"] in ("fvt", "blend"))
    assert f"relexify transfer {world.gpt2}" in found["command"]
    assert f"--corpus {world.corpus}" in found["command"]
    assert "--set unigram_prior=true" in found["command"]
    assert f"--method {found['best']} " in found["command"]
    _, verb, model, name, *rest = shlex.split(found["command"])
    planned = relexify(verb, model, tmp_path / name, *rest, "--dry-run")
    assert planned.status == 0, planned.err
    assert found["advice"]["text"]["source_tokens"] > found["advice"]["text"]["target_tokens"]
    assert found["advice"]["text"]["source_tokens"] > found["advice"]["extended_tokens"]
    assert found["advice"]["evidence"]["dictionary"][-1]["text_share"] > 0
    assert found["advice"]["evidence"]["aligned_share"] is None

    monkeypatch.setattr(comparing, "run_trial", None)  # nothing is trained again
    again = relexify(*(argument for argument in arguments if argument != "--json"))
    assert again.status == 0, again.err
    for words in (
        "after 2 steps",
        f"Use {found['best']}.",
        "tokens per byte",
        "% as many tokens.",
        "Dictionary, share of the text",
        found["command"],
        str(output / "15000B" / "report.html"),
    ):
        assert words in again.out
    assert (output / "15000B" / "report.html").exists()


def test_the_defaults_of_the_command_line_are_those_of_the_options():
    for verb, options, names in (
        (transfer, Transfer, ("method", "vocab_size", "added_tokens", "seed")),
        (advise, Transfer, ("vocab_size", "seed")),
        (advise, Advise, ("steps", "batch", "length", "text_bytes")),
    ):
        given = inspect.signature(verb).parameters
        assert [given[name].default for name in names] == [getattr(options, name) for name in names]
