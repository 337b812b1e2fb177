"""The method trelm of a transfer, from two texts to a model with a joint vocabulary."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from transformers import AutoModelForMaskedLM, AutoTokenizer

from relexify.errors import EvidenceError, InputError
from relexify.evidence.alignment.unsupervised.options import AdversarialTraining
from relexify.evidence.vectors import VectorTraining
from relexify.methods.parts import vectors as parts
from relexify.recipes.file.recipe import read_recipe
from relexify.systems.transfer.options import Transfer
from relexify.systems.transfer.run import run_transfer
from tests import pico

pytest.importorskip("gensim", reason="skip-gram vectors need gensim")

SHORT = AdversarialTraining(restarts=1, epochs=1, steps=20, hidden=16)


@pytest.fixture
def recipe(tmp_path: Path, cache: Path) -> Transfer:
    pico.saved("bert", tmp_path / "bert")
    for name, words in (("source", None), ("target", pico.foreign_words())):
        (tmp_path / f"{name}.txt").write_text("\n".join(pico.sentences(300, words=words)) + "\n")
    return Transfer(
        model=str(tmp_path / "bert"),
        output=tmp_path / "out",
        corpus=tmp_path / "target.txt",
        source_corpus=tmp_path / "source.txt",
        method="trelm",
        vocab_size=250,
        options={"initialisation": "fasttext"},
        vectors=VectorTraining(epochs=1, minimum_count=1),
        score=False,
    )


def test_a_model_gets_a_vocabulary_of_both_languages_and_rows_for_its_tokens(recipe, monkeypatch):
    trained, train = [], parts.train_vectors
    monkeypatch.setattr(parts, "train_vectors", lambda *given: trained.append(given[1]) or train(*given))
    result = run_transfer(recipe)
    assert [(options.method, options.width) for options in trained] == [("skipgram", pico.WIDTH)]
    tokenizer = AutoTokenizer.from_pretrained(recipe.output)
    for line in (pico.sentences(1)[0], pico.sentences(1, words=pico.foreign_words())[0]):
        assert tokenizer.unk_token not in tokenizer(line).tokens()
    origins = result.graft.report.origins
    assert origins["precomputed"] > 100
    assert origins["special"] >= 5
    source = pico.pair("bert")[0].get_input_embeddings().weight.detach().numpy()
    target = AutoModelForMaskedLM.from_pretrained(recipe.output).get_input_embeddings().weight.detach().numpy()
    assert target.std() == pytest.approx(source.std(), rel=0.5)
    assert np.isfinite(target).all()


def test_the_joint_vocabulary_can_be_in_lower_case(recipe):
    for lowercase in (False, True):
        options = {"initialisation": "random", "lowercase": lowercase}
        run_transfer(replace(recipe, options=options, overwrite=True))
        tokens = AutoTokenizer.from_pretrained(recipe.output).tokenize("The Šo")
        assert ("".join(tokens).replace("##", "") == "thešo") == lowercase  # its language has many accents


def test_vectors_that_cannot_be_aligned_with_the_embedding_stop_the_run_before_anything_is_written(recipe):
    with pytest.raises(EvidenceError, match=r"could not be aligned|need at least"):
        run_transfer(replace(recipe, options={"initialisation": "fasttext-align"}, adversarial=SHORT))
    assert not recipe.output.exists()


@pytest.mark.parametrize("aligned_by", ["adversarial", "unsupervised"])
def test_adversarial_training_can_be_chosen_alone(recipe, aligned_by, caplog):
    options = {"initialisation": "random-align"}
    with caplog.at_level("INFO", "relexify"):
        run_transfer(replace(recipe, options=options, aligned_by=aligned_by, adversarial=SHORT))
    assert "game 1:" in caplog.text
    assert "game 2:" not in caplog.text
    for search in ("frequency:", "principal axes:"):
        assert (search in caplog.text) == (aligned_by == "unsupervised")


def test_the_rows_are_made_by_the_chosen_map(recipe):
    made = {}
    for kind in ("linear", "orthogonal", None):
        options = {"initialisation": "random-align"} | ({"map": kind} if kind else {})
        run_transfer(replace(recipe, options=options, aligned_by="identical", overwrite=True))
        model = AutoModelForMaskedLM.from_pretrained(recipe.output)
        made[kind] = model.get_input_embeddings().weight.detach().numpy()
    assert made["linear"].shape == made["orthogonal"].shape
    assert made["linear"].std() < 0.7 * made["orthogonal"].std()  # random vectors predict nothing
    assert np.array_equal(made[None], made["linear"]), "the default is documented in docs/methods.md"


def test_text_of_the_models_language_is_needed(recipe):
    with pytest.raises(InputError, match="`source_corpus`"):
        run_transfer(replace(recipe, source_corpus=None))


@pytest.mark.parametrize("key", ["aligned_by", "initialisation", "map"])
def test_a_recipe_rejects_unknown_choices(key, tmp_path):
    file = tmp_path / "recipe.toml"
    text = 'output = "out"\nmodel = "gpt2"\ncorpus = "new.txt"\n[transfer]\nmethod = "trelm"\n'
    (tmp_path / "new.txt").write_text("words\n")
    file.write_text(text + f'{key} = "magic"\n')
    with pytest.raises(InputError, match=f"{key}.*magic|magic.*{key}"):
        read_recipe(file)
