"""`relexify compress` and `relexify expand`, and the commands that read their output."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from relexify.evidence.vectors import WordVectors
from relexify.pretrained.loading import load_model
from relexify.systems.compression.codes import smallest_base
from relexify.systems.compression.model import is_compressed
from tests import pico
from tests.cli.command import assert_error, relexify


@pytest.fixture(scope="module")
def compressed(transferred, tmp_path_factory):
    """A transferred model, compressed, and the outcome of the command."""
    output = tmp_path_factory.mktemp("compressed") / "small"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "160")
        outcome = relexify("compress", transferred[0], output, "--k", 2, "--clusters", 20, "--equal-size")
    assert outcome.status == 0, outcome.err
    return output, outcome


def test_a_transferred_model_is_compressed_and_the_report_shows_the_loss(compressed, transferred):
    output, outcome = compressed
    for words in ("20 × 16, 20 × 16", "10,560", "640", "93.94%", "1: as far off as zeros", "nearest", "a random token"):
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
    shown = relexify("evaluate", output, "--held-out", world.corpus).out
    assert "bits per byte" in shown
    assert "Perplexity is per token and cannot be compared between tokenizers" in " ".join(shown.split())
    options = ("--steps", 4, "--batch", 2, "--length", 16, "--plan", "embeddings-first", "--set", "report_to=[]")
    outcome = relexify("train", output, tmp_path / "trained", "--corpus", world.corpus, *options)
    assert outcome.status == 0, outcome.err
    assert "all logits of a batch" not in outcome.err
    trained, before = load_model(tmp_path / "trained"), load_model(output)
    assert is_compressed(trained)
    assert torch.equal(trained.get_input_embeddings().codes, before.get_input_embeddings().codes)
    assert not torch.equal(trained.get_input_embeddings().tables[0], before.get_input_embeddings().tables[0])


def test_a_compressed_model_with_the_tokens_of_another_is_not_expanded(compressed, tmp_path):
    folder = pico.permute_tokens(shutil.copytree(compressed[0], tmp_path / "small"))
    outcome = relexify("expand", folder, tmp_path / "plain")
    assert_error(outcome, "is not the one that the embeddings were built for")


def test_codes_are_not_taken_from_a_model_with_other_tokens(world, tmp_path):
    other = pico.permute_tokens(shutil.copytree(world.gpt2, tmp_path / "other"))
    outcome = relexify("compress", world.gpt2, tmp_path / "small", "--k", "2", "--set", f"codes_from={other}")
    assert_error(outcome, "has another vocabulary than the model")


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


def test_bad_input_is_rejected_in_a_sentence_and_leaves_nothing(world, compressed, rejects, tmp_path):
    out = tmp_path / "out"
    rejects(("compress", world.gpt2, out, "--k", 2, "--clusters", 3, "--codes", "digits"), "9 codes", "20 rows")
    rejects(("compress", world.gpt2, out, "--k", 2, "--clusters", 3, "--equal-size"), "9 codes", "20 rows")
    rejects(("compress", world.gpt2, out, "--k", 99), "split into 99 tables", "from 1 to 32")
    rejects(("compress", world.gpt2, out, "--codes", "digits", "--equal-size"), "leave out one")
    rejects(("compress", compressed[0], out), "already compressed", "expand")
    rejects(("compress", tmp_path / "none", out), "no folder")
    rejects(("compress", world.gpt2, out, "--set", f"codes_from={world.bert}"), "rows", "same")
    rejects(("compress", world.gpt2, compressed[0]), "exists already", "--overwrite")
    rejects(("expand", world.gpt2, out), "not compressed")
    rejects(("transfer", compressed[0], out, *world.text, "--method", "fvt"), "expand it first")


def test_a_warning_reports_tables_that_save_nothing(world, tmp_path):
    outcome = relexify("compress", world.gpt2, tmp_path / "out", "--k", 1)
    assert outcome.status == 0, outcome.err
    assert "not fewer than the original with" in " ".join(outcome.err.split())


def test_compressed_random_tables_and_counted_codes(world, tmp_path):
    outcome = relexify("compress", world.bert, tmp_path / "out", "--codes", "digits", "--init", "random", "--seed", 3)
    assert outcome.status == 0, outcome.err
    assert "random tables" in outcome.out
    assert load_model(tmp_path / "out").get_input_embeddings().rows == [6, 6, 6]


RECIPE = """
output = "{output}"
model = "{model}"
corpus = "{corpus}"
{more}
[compress]
k = 3
codes = "digits"
init = "random"

[training]
steps = 3
batch = 2
length = 16
held_out_bytes = 500
report_to = []
"""


def test_a_recipe_trains_a_fresh_compressed_model_from_scratch(world, tmp_path):
    changes = "[fresh]\nnum_hidden_layers = 1\nhidden_size = 48\nintermediate_size = 20\n"
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(RECIPE.format(output=tmp_path / "out", model=world.bert, corpus=world.corpus, more=changes))
    outcome = relexify("run", recipe)
    assert outcome.status == 0, outcome.err
    model = load_model(tmp_path / "out")
    assert [tuple(table.shape) for table in model.get_input_embeddings().tables] == [(6, 16)] * 3
    assert model.config.num_hidden_layers == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "recipe.toml"]
    assert relexify("run", recipe).status == 0  # finished already: the same command finds its own result


def test_a_recipe_transfers_compresses_and_trains(world, tmp_path):
    recipe = tmp_path / "recipe.toml"
    transfer = '[transfer]\nmethod = "fvt"\nvocab_size = 300\n'
    recipe.write_text(RECIPE.format(output=tmp_path / "out", model=world.gpt2, corpus=world.corpus, more=transfer))
    outcome = relexify("run", recipe)
    assert outcome.status == 0, outcome.err
    assert load_model(tmp_path / "out").get_input_embeddings().rows == [7, 7, 7]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "recipe.toml"]


def test_a_comparison_trains_models_with_different_numbers_of_tables_from_scratch(world, tmp_path):
    recipe = tmp_path / "recipe.toml"
    text = RECIPE.format(
        output=tmp_path / "out", model=world.bert, corpus=world.corpus, more="[fresh]\nhidden_size = 48"
    )
    runs = ", ".join(f'{{name = "k{k}", changes.compress.k = {k}}}' for k in (1, 2))
    recipe.write_text(f'{text}\n[compare]\nkeep_models = true\nruns = [{runs}, {{name = "k3"}}]\n')
    outcome = relexify("compare", recipe)
    assert outcome.status == 0, outcome.err
    models = [load_model(tmp_path / "out" / "runs" / f"k{k}-seed0" / "model") for k in (1, 2, 3)]
    tables = [[tuple(table.shape) for table in model.get_input_embeddings().tables] for model in models]
    tokens = models[0].config.vocab_size
    assert tables == [[(tokens, 48)], [(smallest_base(tokens, 2), 24)] * 2, [(smallest_base(tokens, 3), 16)] * 3]


def test_an_impossible_fresh_model_is_rejected_in_a_sentence(world, tmp_path):
    for change, words in (
        ("layers = 3", "no field 'layers'"),
        ("hidden_size = 31", "of the requested size"),
        ("num_attention_heads = -2", "num_attention_heads = -2 is not possible"),
        ("intermediate_size = 0", "give 1 or more"),
    ):
        recipe = tmp_path / "recipe.toml"
        text = RECIPE.format(output=tmp_path / "out", model=world.bert, corpus=world.corpus, more=f"[fresh]\n{change}")
        recipe.write_text(text)
        outcome = relexify("run", recipe)
        assert outcome.status == 2
        assert words in outcome.err


def test_a_config_without_a_class_is_rejected_before_a_fresh_model_is_made(world, tmp_path):
    shutil.copytree(world.bert, tmp_path / "bert")
    config = json.loads((tmp_path / "bert" / "config.json").read_text())
    (tmp_path / "bert" / "config.json").write_text(json.dumps(config | {"architectures": None}))
    recipe = tmp_path / "recipe.toml"
    start = RECIPE.format(output=tmp_path / "out", model=tmp_path / "bert", corpus=world.corpus, more="[fresh]\n")
    recipe.write_text(start)
    outcome = relexify("run", recipe)
    assert outcome.status == 2
    assert "names no model class" in outcome.err


def test_geometry_draws_a_plain_and_a_compressed_model_side_by_side(compressed, transferred, world, rejects, tmp_path):
    pictures = ("-o", tmp_path / "embeddings.svg", "--layers", tmp_path / "layers.png")
    outcome = relexify("geometry", transferred[0], compressed[0], *pictures, "--text", world.corpus)
    assert outcome.status == 0, outcome.err
    assert "variance explained by 3 axes" in outcome.out
    assert "small" in outcome.out
    assert (tmp_path / "embeddings.svg").stat().st_size > 1_000
    assert (tmp_path / "layers.png").read_bytes().startswith(b"\x89PNG")
    rejects(("geometry", world.gpt2, "-o", tmp_path / "embeddings.svg"), "exists already")
    rejects(("geometry", world.gpt2, "-o", tmp_path / "new.svg", "--states", tmp_path / "states.svg"), "with --text")
    rejects(("geometry", world.gpt2, "-o", tmp_path / "new.svg", "--word", "zzzz"), "no token 'zzzz'")
    rejects(("geometry", world.gpt2, world.gpt2, "-o", tmp_path / "new.svg"), "given twice")


def test_geometry_draws_hidden_states_of_an_encoder_and_the_neighbours_of_a_word(world, tmp_path):
    WordVectors(["river", "house", "teacher"], np.eye(3, 6, dtype=np.float32)).save(tmp_path / "words.safetensors")
    pictures = [tmp_path / f"{name}.svg" for name in ("embeddings", "layers", "states", "neighbours")]
    files = [
        word for name, file in zip(("output", "layers", "states", "neighbours"), pictures, strict=True)
        for word in (f"--{name}", file)
    ]  # fmt: skip
    words = ("--word", "river", "--vectors", tmp_path / "words.safetensors")
    outcome = relexify("geometry", world.bert, *files, "--text", world.corpus, *words)
    assert outcome.status == 0, outcome.err
    assert "layer 2" in pictures[2].read_text()
    assert pictures[3].read_text().count(">river<") == 2
