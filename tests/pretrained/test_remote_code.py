"""Code that comes with a model never runs, and nobody is prompted for permission."""

from __future__ import annotations

import json
from functools import partial

import pytest

from relexify.errors import InputError
from relexify.evaluation.finetuning.encoder import encoder_config
from relexify.pretrained.loading import load_config, load_model, meta_model
from tests import pico


@pytest.fixture
def hostile(tmp_path, monkeypatch):
    """A model folder whose code writes a file when it is imported; every prompt is answered with yes."""
    folder = tmp_path / "hostile"
    pico.pair("gpt2")[1].save_pretrained(folder)
    config = {
        "model_type": "unknown-kind",
        "architectures": ["OwnModel"],
        "auto_map": {"AutoConfig": "own.OwnConfig", "AutoModelForCausalLM": "own.OwnModel"},
    }
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "own.py").write_text(
        "from pathlib import Path\n"
        "from transformers import PretrainedConfig\n"
        f"Path({str(tmp_path / 'executed')!r}).touch()\n"
        "class OwnConfig(PretrainedConfig):\n    model_type = 'unknown-kind'\n"
    )
    prompts = []
    monkeypatch.setattr("builtins.input", lambda prompt="": prompts.append(prompt) or "y")
    yield folder
    assert prompts == []
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize("load", [load_config, load_model, meta_model, partial(encoder_config, task="nli")])
def test_a_model_with_code_of_its_own_is_rejected_without_a_prompt(hostile, load):
    with pytest.raises(InputError, match="needs its own Python code, which relexify does not run"):
        load(hostile)


def test_code_of_a_model_head_does_not_run_when_a_model_is_built_from_its_config(hostile):
    config = json.loads((hostile / "config.json").read_text())
    config |= {"model_type": "vit", "auto_map": {"AutoModelForCausalLM": "own.OwnModel"}}
    (hostile / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match="needs its own Python code"):
        meta_model(hostile)
