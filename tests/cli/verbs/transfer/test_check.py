"""`relexify check`: exit status, reasons, and folders that hold something else."""

from __future__ import annotations

import json
import re
import shlex
import shutil

import pytest

from relexify.pretrained.kinds import MODEL_KINDS
from relexify.pretrained.loading import load_model
from tests.cli.command import assert_error, relexify


def test_a_transfer_passes_before_and_after_training(transferred, world, tmp_path):
    outcome = relexify("check", transferred[0])
    assert outcome.status == 0, outcome.out
    assert "failed" not in outcome.out
    options = ("--steps", 2, "--batch", 2, "--length", 16, "--set", "report_to=[]")
    assert relexify("train", transferred[0], tmp_path / "trained", "--corpus", world.corpus, *options).status == 0
    assert relexify("check", tmp_path / "trained").status == 0
    (tmp_path / "trained" / "tokenizer.json").unlink()
    broken = relexify("check", tmp_path / "trained").out
    assert "or write it again, with --overwrite and the command that wrote it." in broken


def test_a_broken_graft_has_status_1_and_a_reason(transferred, tmp_path):
    folder = shutil.copytree(transferred[0], tmp_path / "broken")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "eos_token_id": 9}))
    outcome = relexify("check", folder)
    assert outcome.status == 1
    assert "special tokens: eos_token_id in config.json is 9" in outcome.out


def test_a_special_token_that_tokenizer_json_does_not_declare_is_named(transferred, tmp_path):
    folder = shutil.copytree(transferred[0], tmp_path / "broken")
    state = json.loads((folder / "tokenizer.json").read_text())
    token = state["added_tokens"].pop()["content"]
    (folder / "tokenizer.json").write_text(json.dumps(state))
    outcome = relexify("check", folder)
    assert outcome.status == 1
    assert f"tokenizer.json does not declare {token!r}" in outcome.out


def test_a_missing_shard_is_named(transferred, tmp_path):
    folder = shutil.copytree(transferred[0], tmp_path / "broken")
    load_model(folder).save_pretrained(folder, max_shard_size="50KB")
    (folder / "model.safetensors").unlink(missing_ok=True)
    shard = next(folder.glob("model-00001-of-*.safetensors"))
    shard.unlink()
    outcome = relexify("check", folder)
    assert outcome.status == 1
    assert f"loading: {shard} is missing" in outcome.out


@pytest.mark.parametrize("left", [5, 30, 20_000])
def test_truncated_weights_are_named_with_their_size_and_the_command_that_writes_them_again(
    left, transferred, tmp_path
):
    folder = shutil.copytree(transferred[0], tmp_path / "broken")
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:left])
    outcome = relexify("check", folder)
    assert outcome.status == 1
    assert f"loading: {weights} is truncated: it has {left:,} bytes, but at least" in outcome.out
    assert f"Next, restore an intact copy of {folder}, or write it again:" in outcome.out
    (command,) = re.findall(r"^  relexify (.*)$", outcome.out, re.MULTILINE)
    assert relexify(*shlex.split(command)).status == 0
    assert relexify("check", folder).status == 0


def test_a_compressed_transfer_is_not_called_a_graft(transferred, tmp_path):
    options = ("--k", 2, "--clusters", 20, "--equal-size")
    assert relexify("compress", transferred[0], tmp_path / "small", *options).status == 0
    assert_error(relexify("check", tmp_path / "small"), "holds a compressed model, not a graft")


@pytest.mark.parametrize("name", MODEL_KINDS)
def test_models_of_other_systems_are_not_called_grafts(name, tmp_path):
    kind = MODEL_KINDS[name]
    (tmp_path / "config.json").write_text(json.dumps({"model_type": kind.model_type, kind.config_entry or "x": {}}))
    (tmp_path / "relexify.json").write_text("{}")
    assert_error(relexify("check", tmp_path), f"holds a {kind.name}, not a graft")


@pytest.mark.parametrize(
    "command", [("report",), ("check",), ("push", "user/name"), ("train", "out"), ("compress", "out")]
)
def test_notes_that_were_edited_are_rejected_with_the_key(command, transferred, world, tmp_path):
    folder = shutil.copytree(transferred[0], tmp_path / "edited")
    notes = json.loads((folder / "relexify.json").read_text())
    notes["graft"]["origins"] = [3]
    (folder / "relexify.json").write_text(json.dumps(notes))
    verb, *rest = (tmp_path / each if each == "out" else each for each in command)
    text = ("--corpus", world.corpus, "--length", 16) if verb == "train" else ()
    message = f"{folder / 'relexify.json'}: graft.origins is a list, but an object is expected"
    assert_error(relexify(verb, folder, *rest, *text), message)
    assert not (tmp_path / "out").exists()
