"""`relexify compress` and `relexify expand`, and everything that takes what they write."""

from __future__ import annotations

import json

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from relexify import load_model
from relexify.models import is_compressed
from tests.cli.command import relexify


@pytest.fixture(scope="module")
def compressed(transferred, tmp_path_factory):
    """A transferred model, compressed, and what the command said."""
    output = tmp_path_factory.mktemp("compressed") / "small"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "160")
        outcome = relexify("compress", transferred[0], output, "--k", 2, "--clusters", 20, "--equal-size")
    assert outcome.status == 0, outcome.err
    return output, outcome


def test_a_transferred_model_is_compressed_and_the_report_tells_what_that_costs(compressed, transferred):
    output, outcome = compressed
    for words in ("20 × 16, 20 × 16", "10,560", "640", "93.94%", "relative error", "nearest", "at random"):
        assert words in outcome.out
    notes = json.loads((output / "relexify.json").read_text())
    assert notes["compression"]["embedding_after"] == 640
    assert notes["provenance"]["seed"] == 0
    assert len(notes["provenance"]["inputs"]["model"]) == 64
    assert notes["graft"]["tokens"] == 330
    assert is_compressed(load_model(output))


def test_a_compressed_model_is_inspected_evaluated_and_trained_on(compressed, world, tmp_path):
    output, _ = compressed
    assert relexify("inspect", output, "--sample", 2).status == 0
    assert "bits per byte" in relexify("evaluate", output, "--held-out", world.corpus).out
    options = ("--steps", 4, "--batch", 2, "--length", 16, "--plan", "embeddings-first", "--no-tensorboard")
    outcome = relexify("train", output, tmp_path / "trained", "--corpus", world.corpus, *options)
    assert outcome.status == 0, outcome.err
    assert "logits are kept whole" not in outcome.err
    trained, before = load_model(tmp_path / "trained"), load_model(output)
    assert is_compressed(trained)
    assert torch.equal(trained.get_input_embeddings().codes, before.get_input_embeddings().codes)
    assert not torch.equal(trained.get_input_embeddings().tables[0], before.get_input_embeddings().tables[0])


def test_expanded_it_is_an_ordinary_model_with_the_same_logits(compressed, tmp_path):
    output, _ = compressed
    outcome = relexify("expand", output, tmp_path / "plain")
    assert outcome.status == 0, outcome.err
    plain = AutoModelForCausalLM.from_pretrained(tmp_path / "plain")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "plain")
    ids = tokenizer("šomü raki", return_tensors="pt").input_ids
    with torch.no_grad():
        assert torch.allclose(plain(ids).logits, load_model(output)(ids).logits, atol=1e-5)
    assert relexify("inspect", tmp_path / "plain", "--sample", 2).status == 0


def test_compressing_again_gives_the_same_bytes(compressed, transferred, tmp_path):
    again = relexify("compress", transferred[0], tmp_path / "again", "--k", 2, "--clusters", 20, "--equal-size")
    assert again.status == 0, again.err
    for name in ("model.safetensors", "config.json"):
        assert (tmp_path / "again" / name).read_bytes() == (compressed[0] / name).read_bytes()


def test_bad_input_is_refused_in_a_sentence_and_leaves_nothing(world, compressed, refuses, tmp_path):
    out = tmp_path / "out"
    refuses(("compress", world.gpt2, out, "--k", 2, "--clusters", 3, "--codes", "digits"), "9 codes", "20 rows")
    refuses(("compress", world.gpt2, out, "--k", 2, "--clusters", 3, "--equal-size"), "9 codes", "20 rows")
    refuses(("compress", world.gpt2, out, "--k", 99), "cut into 99 parts", "from 1 to 32")
    refuses(("compress", world.gpt2, out, "--codes", "digits", "--equal-size"), "leave out one")
    refuses(("compress", compressed[0], out), "compressed already", "expand")
    refuses(("compress", tmp_path / "none", out), "no folder")
    refuses(("compress", world.gpt2, out, "--codes-from", world.bert), "rows", "same")
    refuses(("compress", world.gpt2, compressed[0]), "exists already", "--overwrite")
    refuses(("expand", world.gpt2, out), "not compressed")
    refuses(("transfer", compressed[0], out, *world.text, "--method", "fvt"), "expand it first")


def test_compressed_random_tables_and_counted_codes(world, tmp_path):
    outcome = relexify("compress", world.bert, tmp_path / "out", "--codes", "digits", "--init", "random", "--seed", 3)
    assert outcome.status == 0, outcome.err
    assert "random tables" in outcome.out
    assert load_model(tmp_path / "out").get_input_embeddings().rows == [6, 6, 6]
