"""Kinds of models: recognised by their configs, with classes that transformers then knows."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from transformers import AutoConfig, BertForMaskedLM

from relexify.errors import InputError
from relexify.pretrained.kinds import MODEL_KINDS, kind_of_config, kind_of_folder, read_config_file
from relexify.pretrained.languages import export_language, language_folder, load_for_language, needs_language
from relexify.pretrained.loading import load_config, load_model, model_class
from relexify.systems.compression.compress import compressed
from relexify.systems.compression.options import Compression
from relexify.systems.trelm.model.building import with_trilayer
from relexify.systems.trelm.model.heads import TriLayerForMaskedLM
from tests import pico


def test_every_system_with_a_kind_of_model_has_registered_it():
    assert set(MODEL_KINDS) == {"bilingual", "compressed", "trilayer"}
    for kind in MODEL_KINDS.values():
        assert (kind.model_type is None) != (kind.config_entry is None)


def test_registering_kinds_does_not_import_torch():
    code = (
        "import sys; from relexify.pretrained.kinds import MODEL_KINDS; list(MODEL_KINDS); "
        "sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_an_ordinary_model_has_no_kind(tmp_path):
    model, tokenizer = pico.pair("bert")
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    assert kind_of_config(model.config) is None
    assert kind_of_folder(tmp_path) is None
    assert kind_of_folder("bert-base-uncased") is None
    assert not needs_language(tmp_path)
    assert model_class(load_config(tmp_path)) is BertForMaskedLM


@pytest.mark.parametrize("content", ["", "[1]", "{"])
def test_a_config_that_cannot_be_read_has_no_entries(content, tmp_path):
    (tmp_path / "config.json").write_text(content)
    assert read_config_file(tmp_path) == {}
    assert kind_of_folder(tmp_path) is None


def test_a_compressed_model_is_recognised_by_an_entry_of_its_config(tmp_path):
    model, tokenizer = pico.pair("bert")
    small, _ = compressed(model, Compression(k=2, codes="digits", init="random"))
    small.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    assert kind_of_folder(tmp_path) is MODEL_KINDS["compressed"] is kind_of_config(load_config(tmp_path))
    assert type(load_model(tmp_path)) is type(small)


def test_a_trilayer_model_is_known_to_transformers_once_its_config_is_loaded(tmp_path):
    model, tokenizer = pico.pair("bert")
    with_trilayer(model, ("en", "xx")).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    assert kind_of_folder(tmp_path) is MODEL_KINDS["trilayer"]
    assert isinstance(load_model(tmp_path), TriLayerForMaskedLM)
    assert AutoConfig.from_pretrained(tmp_path).languages == ["en", "xx"]
    with pytest.raises(InputError, match="not a bilingual model"):  # it has a joint vocabulary
        load_for_language(tmp_path, "en")


def test_no_language_can_be_taken_out_of_an_ordinary_model(tmp_path):
    pico.saved("bert", tmp_path / "model")
    with language_folder(tmp_path / "model") as folder:
        assert folder == tmp_path / "model"
    with pytest.raises(InputError, match="remove 'en'"), language_folder(tmp_path / "model", "en"):
        pass
    with pytest.raises(InputError, match=r"holds no bilingual model: .*relexify bilingual or relexify trelm"):
        export_language(tmp_path / "model", "en", tmp_path / "en")
    assert not (tmp_path / "en").exists()
    assert json.loads((tmp_path / "model" / "config.json").read_text())["model_type"] == "bert"
