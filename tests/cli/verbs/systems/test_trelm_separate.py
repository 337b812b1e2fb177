"""relexify trelm --vocabularies separate, its output, and recipes with this option."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from relexify.errors import InputError
from relexify.pretrained.loading import load_model, load_tokenizer
from relexify.recipes.file.recipe import read_recipe, recipe_text
from relexify.recipes.run import run_recipe
from relexify.systems.trelm.model.folder import load_tokenizers
from tests import pico
from tests.cli.command import relexify
from tests.cli.verbs.systems.test_trelm import Texts, recipe, texts  # noqa: F401 (a fixture)

SEPARATE = ("--vocabularies", "separate")


@pytest.fixture(scope="module")
def grafted(texts: Texts) -> Path:  # noqa: F811 (the fixture)
    """The model with a vocabulary of the target language, as a transfer writes it."""
    output = texts.root / "grafted"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RELEXIFY_CACHE", str(texts.root / "cache"))
        corpus = ("--corpus", texts.root / "xx.txt", "--held-out", texts.root / "held.txt")
        outcome = relexify("transfer", texts.model, output, *corpus, "--method", "random", "--vocab-size", 260)
    assert outcome.status == 0, outcome.err
    return output


@pytest.fixture(scope="module")
def whole(texts: Texts, grafted: Path) -> tuple[Path, Any]:  # noqa: F811 (the fixture)
    output = texts.root / "separate"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RELEXIFY_CACHE", str(texts.root / "cache"))
        patch.setenv("COLUMNS", "160")
        return output, relexify("trelm", grafted, output, *texts.options(*SEPARATE, "--source-model", texts.model))


def test_all_phases_keep_two_vocabularies_and_report_scores(
    texts: Texts,  # noqa: F811 (the fixture)
    whole: tuple[Path, Any],
    grafted: Path,
) -> None:
    output, outcome = whole
    assert outcome.status == 0, outcome.err
    assert len(re.findall(r"BLEU-\d", outcome.out)) == 8
    for phase in ("specific", "commonality", "source-to-target", "target-to-source"):
        assert f"masked tokens of xx, {phase}" in outcome.out
    assert "masked tokens of en, commonality" in outcome.out
    model = load_model(output)
    assert model.model.language_embeddings is None
    assert model.config.next_sentence  # the head of the source model comes along
    own, new = load_tokenizer(texts.model), load_tokenizer(grafted)
    assert (model.config.source_vocab_size, model.config.vocab_size) == (len(own), len(new))
    found = load_tokenizers(output, model.config)
    assert [each.get_vocab() for each in found] == [own.get_vocab(), new.get_vocab()]
    notes = json.loads((output / "relexify.json").read_text())
    assert notes["trelm"]["vocabularies"] == "separate"
    assert "graft" in notes
    again = relexify("trelm", grafted, output, *texts.options(*SEPARATE, "--source-model", texts.model))
    assert again.status == 0, again.err
    other = relexify("trelm", grafted, output, *texts.options(*SEPARATE, "--source-model", grafted))
    assert other.status == 2


def test_each_language_is_scored_and_exported(texts: Texts, whole: tuple[Path, Any], tmp_path: Path) -> None:  # noqa: F811
    output, model = whole[0], load_model(whole[0])
    ids = torch.tensor([[5, 6, 7, 8]])
    for language, held_out in (("en", "held-en.txt"), ("xx", "held.txt")):
        alone = tmp_path / language
        assert relexify("export", output, language, alone).status == 0
        with torch.no_grad():
            assert torch.equal(load_model(alone)(ids).logits, model(ids, language=language).logits)
        index = 0 if language == "en" else 1
        assert load_tokenizer(alone).get_vocab() == load_tokenizers(output, model.config)[index].get_vocab()
        reported = [
            relexify("evaluate", *folder, "--held-out", texts.root / held_out, "--set", "length=32")
            for folder in ((alone,), (output, "--language", language))
        ]
        assert [each.status for each in reported] == [0, 0], reported[1].err
        numbers = [re.findall(r"\d+\.\d+", each.out) for each in reported]
        assert numbers[0]
        assert numbers[0][:2] == numbers[1][:2]
    rejected = relexify("export", output, "de", tmp_path / "de")
    assert (rejected.status, "does not have the language 'de'" in rejected.err) == (2, True)


def test_prune_and_compress_keep_both_languages(texts: Texts, whole: tuple[Path, Any], tmp_path: Path) -> None:  # noqa: F811
    pruned = relexify("prune", whole[0], tmp_path / "out", "--corpus", texts.root / "xx.txt")
    assert (pruned.status, "relexify export" in " ".join(pruned.err.split())) == (2, True), pruned.err
    compressed = relexify("compress", whole[0], tmp_path / "out", "--k", "2")
    assert (compressed.status, "TRILayer model cannot be compressed" in " ".join(compressed.err.split())) == (2, True)
    assert not list(tmp_path.glob("out*"))


def test_invalid_combinations_are_rejected_before_any_work(texts: Texts, grafted: Path, tmp_path: Path) -> None:  # noqa: F811
    pico.bert(pico.wordpiece()).save_pretrained(tmp_path / "wide")
    for options, part in (
        (SEPARATE, "--source-model"),
        (("--source-model", texts.model), "--source-model is for separate vocabularies"),
        (("--vocabularies", "mixed"), "--vocabularies mixed is not possible: choose joint or separate"),
        (
            (*SEPARATE, "--source-model", texts.model, "--set", "embedding_size=8"),
            "--set embedding_size=… is for a joint",
        ),
        ((*SEPARATE, "--source-model", tmp_path / "wide"), "do not share an encoder"),
    ):
        rejected = relexify("trelm", grafted, tmp_path / "out", *texts.options(*options))
        assert (rejected.status, part in " ".join(rejected.err.split())) == (2, True), rejected.err
    assert not list(tmp_path.glob("out*"))


def test_one_recipe_transfers_and_keeps_the_models_own_vocabulary(texts: Texts, tmp_path: Path) -> None:  # noqa: F811
    file = recipe(texts, tmp_path, 'vocabularies = "separate"\nobjective = "tlm"\n')
    text = file.read_text().replace("[trelm]\n", '[transfer]\nmethod = "random"\nvocab_size = 260\n[trelm]\n', 1)
    file.write_text(text)
    read = read_recipe(file)
    again = tmp_path / "again.toml"
    again.write_text(recipe_text(read))
    assert read_recipe(again) == read
    run_recipe(read)
    model = load_model(tmp_path / "out")
    assert model.config.source_vocab_size == len(load_tokenizer(texts.model))
    assert not list(tmp_path.glob("out.*"))
    file.write_text(text.replace('method = "random"', 'method = "trelm"'))
    with pytest.raises(InputError, match="makes one vocabulary for both languages"):
        read_recipe(file)
    named = recipe(texts, tmp_path, 'vocabularies = "separate"\nsource_model = "models/bert"\n')
    (tmp_path / "models" / "bert").mkdir(parents=True)
    found = read_recipe(named)
    assert found.tables["trelm"].source_model == str(tmp_path / "models" / "bert")
    again.write_text(recipe_text(found))
    assert read_recipe(again) == found
