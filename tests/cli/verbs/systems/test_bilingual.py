"""bilingual and export, recipes with a bilingual step, and bilingual folders in evaluate."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from relexify.errors import InputError
from relexify.recipes.file.recipe import read_recipe
from relexify.recipes.run import run_recipe
from relexify.storage.runs.work import WorkFolder
from relexify.systems.bilingual import training as bilingual_training
from relexify.training import run as training_run
from tests import pico
from tests.cli.command import assert_error, relexify

SHORT = ("--steps", 4, "--batch", 4, "--length", 16, "--set", "evaluate_every=2")


@pytest.fixture(scope="session")
def both(world, transferred, tmp_path_factory) -> tuple[Path, str]:
    """A bilingual folder, and the outcome of the command."""
    root = tmp_path_factory.mktemp("both")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RELEXIFY_CACHE", str(root / "cache"))
        patch.setenv("COLUMNS", "160")
        names = ("--languages", "en,xx")
        texts = ("--corpus", world.corpus, "--source-corpus", world.source_corpus)
        outcome = relexify("bilingual", world.gpt2, transferred[0], root / "out", *texts, *names, *SHORT)
    assert outcome.status == 0, outcome.err
    return root / "out", outcome.out


def test_both_languages_are_shown(both):
    folder, said = both
    assert "en: bits per byte" in said
    assert "xx: bits per byte" in said
    assert {path.name for path in (folder / "languages").iterdir()} == {"en", "xx"}
    assert not folder.with_name("out.training").exists()


def test_bits_per_byte_of_a_language_are_those_of_its_export(both, world, tmp_path):
    assert relexify("export", both[0], "xx", tmp_path / "xx").status == 0
    AutoModelForCausalLM.from_pretrained(tmp_path / "xx")
    AutoTokenizer.from_pretrained(tmp_path / "xx")
    how = (
        "--held-out",
        world.corpus,
        "--set",
        "held_out_bytes=2000",
        "--set",
        "length=16",
        "--device",
        "cpu",
        "--json",
    )
    scored = [relexify("evaluate", *which, *how) for which in ((both[0], "--language", "xx"), (tmp_path / "xx",))]
    assert [outcome.status for outcome in scored] == [0, 0]
    first, second = (json.loads(outcome.out)["scores"] for outcome in scored)
    assert first == second
    assert [score["metric"] for score in first] == ["bits per byte", "perplexity"]


def test_bad_input_is_rejected_in_a_sentence(both, world, transferred, tmp_path, rejects):
    held_out = ("--held-out", world.corpus)
    rejects(("evaluate", both[0], *held_out), "is a bilingual model", "en or xx")
    rejects(("evaluate", both[0], *held_out, "--language", "de"), "does not have the language 'de'")
    rejects(("evaluate", world.gpt2, *held_out, "--language", "de"), "not a bilingual model")
    rejects(("export", both[0], "de", tmp_path / "de"), "does not have the language 'de'")
    rejects(("export", world.gpt2, "en", tmp_path / "en"), "holds no bilingual model")
    rejects(("train", both[0], tmp_path / "t", "--corpus", world.corpus), "is a bilingual model", "relexify export")
    texts = ("--corpus", world.corpus, "--source-corpus", world.source_corpus)
    pair = ("bilingual", world.gpt2, transferred[0], tmp_path / "out")
    rejects((*pair, *texts, "--batch", 5), "--batch 5 is odd")
    rejects((*pair, *texts, "--languages", "source,source"), "both languages are called 'source'")
    rejects(("bilingual", world.gpt2, world.bert, tmp_path / "out", *texts), "GPT2LMHeadModel and a BertForMaskedLM")


def test_either_model_with_the_tokens_of_another_is_rejected(world, transferred, tmp_path, rejects):
    folder = pico.permute_tokens(shutil.copytree(transferred[0], tmp_path / "graft"))
    texts = ("--corpus", world.corpus, "--source-corpus", world.source_corpus)
    for pair in ((world.gpt2, folder), (folder, transferred[0])):
        rejects(("bilingual", *pair, tmp_path / "out", *texts, *SHORT), f"tokenizer in {folder} is not the one")


@pytest.fixture
def recipe(world, tmp_path) -> Path:
    file = tmp_path / "recipe.toml"
    file.write_text(world.bilingual_recipe(world.gpt2, ("en", "xx"), save_every=2))
    return file


@pytest.fixture(scope="module")
def bits() -> dict[str, Any]:
    """The result of the recipe without interruption, computed once."""
    return {}


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def test_a_recipe_transfers_trains_the_embeddings_and_then_both_languages(recipe, tmp_path, bits):
    outcome = relexify("run", recipe)
    assert outcome.status == 0, outcome.err
    assert "xx: bits per byte" in outcome.out
    (command,) = re.findall(r"^  relexify (.*)$", outcome.out, re.MULTILINE)
    sizes = ["--set", "bilingual.training.steps=1000", "--set", "bilingual.training.batch=64"]
    longer = ["--set", f"output={tmp_path}/out-1000", *sizes]
    exported = ["export", f"{tmp_path}/out", "xx", f"{tmp_path}/out-xx"]
    assert shlex.split(command) in (["run", str(recipe), *longer], exported)
    assert relexify(*shlex.split(command), *(["--dry-run"] if "run" in command else [])).status == 0
    assert {path.name for path in tmp_path.iterdir()} == {"out", "recipe.toml"}, "something was left behind"
    notes = json.loads((tmp_path / "out" / "relexify.json").read_text())
    assert notes["bilingual"]["languages"] == ["en", "xx"]
    assert notes["training"]["optimiser"] == "lookahead"
    bits.update(weights(tmp_path / "out"))
    again = relexify("run", recipe)
    assert again.status == 0, again.err
    assert "is up to date" in again.err
    assert_error(relexify("run", recipe, "--set", "bilingual.training.steps=6"), "exists already", "--overwrite")


class Stopped(BaseException):
    """As a user stops a run."""


def stops_at(owner: object, name: str, *, after: bool) -> Callable[..., Any]:
    own = getattr(owner, name)

    def stopping(*arguments: Any, **options: Any) -> Any:
        if after:
            own(*arguments, **options)
        raise Stopped

    return stopping


@pytest.mark.parametrize(
    ("owner", "name", "after"),
    [
        (training_run, "train", True),
        (bilingual_training, "train_bilingual", True),
        (WorkFolder, "mark_finished", False),
    ],
)
def test_a_recipe_stopped_between_its_steps_resumes_with_the_same_result(
    recipe, tmp_path, monkeypatch, bits, owner, name, after
):
    read = read_recipe(recipe)
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, stops_at(owner, name, after=after))
        with pytest.raises(Stopped):
            run_recipe(read)
    run_recipe(read)
    assert {path.name for path in tmp_path.iterdir()} == {"out", "recipe.toml"}
    expected, found = bits or weights(tmp_path / "out"), weights(tmp_path / "out")
    assert all(torch.equal(expected[each], found[each]) for each in expected)


def test_a_changed_recipe_does_not_take_the_unfinished_work_of_another(recipe, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(
            bilingual_training, "train_bilingual", stops_at(bilingual_training, "train_bilingual", after=False)
        )
        with pytest.raises(Stopped):
            run_recipe(read_recipe(recipe))
    changed = read_recipe(recipe, ["training.steps=2", "bilingual.training.steps=2"])
    with pytest.raises(InputError, match=r"out\.work holds the unfinished work of another.*steps was 4, here it is 2"):
        run_recipe(changed)
    assert run_recipe(changed, overwrite=True).curve.last.step == 2
    assert {path.name for path in tmp_path.iterdir()} == {"out", "recipe.toml"}


def test_a_bilingual_training_needs_a_transfer_and_text(recipe, tmp_path, rejects):
    whole = recipe.read_text()
    recipe.write_text(whole.replace("[transfer]", "[vectors]").partition("[vectors]")[0] + "[bilingual]\n")
    rejects(("run", recipe), "[bilingual] needs [transfer]")
    recipe.write_text("\n".join(line for line in whole.splitlines() if not line.startswith("source_corpus")))
    rejects(("run", recipe), "lacks `source_corpus`")
    recipe.write_text(whole.replace('["en", "xx"]', '["en", "en"]'))
    rejects(("run", recipe), "bilingual", "both languages are called 'en'")
    recipe.write_text(whole + '[compare]\nruns = ["transinner"]\n')
    rejects(("compare", recipe), "compare.runs[0] has the plan embeddings-first", "leave the plan out")
