"""Extend, train both languages, and prune, from the command line."""

from __future__ import annotations

import html
import json
import re

from relexify.storage.notes import read_notes
from tests.cli.command import assert_error, relexify


def test_a_model_is_extended_trained_in_both_languages_and_pruned(world, tmp_path, cache):
    texts = ("--corpus", world.corpus, "--source-corpus", world.source_corpus)
    options = ("--keep-source", "--added-tokens", 40, "--method", "fvt", "--set", "held_out_bytes=500")
    extended = relexify("transfer", world.gpt2, tmp_path / "both", *texts, *options)
    assert extended.status == 0, extended.err
    assert "are the same as before" in extended.out
    assert "added tokens" in extended.out
    short = ("--steps", 2, "--batch", 4, "--length", 16, "--set", "report_to=[]", "--set", "source_share=0.5")
    trained = relexify("train", tmp_path / "both", tmp_path / "trained", *texts, *short)
    assert trained.status == 0, trained.err
    assert "source: bits per byte" in trained.out
    pruned = relexify("--json", "prune", tmp_path / "trained", tmp_path / "small", "--corpus", world.corpus)
    assert pruned.status == 0, pruned.err
    assert json.loads(pruned.out)["removed"] == read_notes(tmp_path / "small")["pruned"]["removed"] > 0
    assert relexify("check", tmp_path / "small").status == 0


def test_an_extension_needs_text_of_the_source_language(world, tmp_path):
    outcome = relexify("transfer", world.gpt2, tmp_path / "both", "--corpus", world.corpus, "--keep-source")
    assert_error(outcome, "--source-corpus")


def test_the_next_command_after_a_recipe_that_extends_a_model_trains_both_languages(world, tmp_path, cache):
    recipe, more, held_out = tmp_path / "extend.toml", tmp_path / "more.txt", tmp_path / "held.txt"
    more.write_text("\n".join(world.corpus.read_text().splitlines()[:50]))
    held_out.write_text("\n".join(world.source_corpus.read_text().splitlines()[:20]))
    recipe.write_text(f"""
title = "Extend"
output = "both"
model = "{world.gpt2}"
corpus = ["{world.corpus}", "{more}"]

[transfer]
method = "fvt"
keep_source = true
added_tokens = 40
source_corpus = "{world.source_corpus}"
source_held_out = "{held_out}"
score = false
""")
    outcome = relexify("run", recipe)
    assert outcome.status == 0, outcome.err
    (command,) = [line.strip() for line in outcome.out.splitlines() if line.startswith("  relexify train")]
    source = f"--source-corpus {world.source_corpus} --source-held-out {held_out}"
    assert f"--corpus {world.corpus} --corpus {more} {source}" in command
    page = html.unescape(re.sub(r"</?span[^>]*>", "", (tmp_path / "both" / "report.html").read_text()))
    assert command.replace(f"{tmp_path}/both", "both") in page
