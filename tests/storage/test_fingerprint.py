"""Fingerprints change with everything that affects a result, and with nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import GPT2LMHeadModel

from relexify.storage.fingerprint import BY_CONTENT, NO_EFFECT, content_of, fingerprint
from relexify.text import Corpus
from tests import pico


@dataclass(frozen=True)
class Options:
    size: int = 3
    model: str = field(default="gpt2", metadata=BY_CONTENT)
    device: str = field(default="cpu", metadata=NO_EFFECT)


def test_every_field_counts_unless_it_is_marked():
    assert fingerprint(Options()) != fingerprint(Options(size=4))
    assert fingerprint(Options()) != fingerprint(Options(model="bert"))
    assert fingerprint(Options()) == fingerprint(Options(device="cuda"))


def test_a_named_folder_counts_by_its_content(tmp_path: Path):
    first, second = tmp_path / "a", tmp_path / "b"
    for folder in (first, second):
        folder.mkdir()
        (folder / "config.json").write_text("{}")
    assert fingerprint(Options(model=str(first))) == fingerprint(Options(model=str(second)))
    (second / "config.json").write_text("{ }")
    assert fingerprint(Options(model=str(first))) != fingerprint(Options(model=str(second)))


def test_a_field_counts_by_what_its_value_opens(tmp_path: Path):
    @dataclass(frozen=True)
    class Texts:
        corpus: object = field(default=None, metadata=content_of(Corpus.open))

    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("one\n")
    before = fingerprint(Texts(str(tmp_path / "a.txt")))
    assert fingerprint(Texts(tmp_path / "b.txt")) == fingerprint(Texts(Corpus.open(tmp_path / "b.txt"))) == before
    assert fingerprint(Texts()) != before
    (tmp_path / "a.txt").write_text("two\n")
    assert fingerprint(Texts(str(tmp_path / "a.txt"))) != before


def test_a_path_counts_by_content_and_a_text_as_it_is(tmp_path: Path):
    file = tmp_path / "x"
    file.write_text("one")
    before = fingerprint({"file": file, "name": str(file)})
    file.write_text("two")
    assert fingerprint({"file": file}) != before
    assert fingerprint({"name": str(file)}) == fingerprint({"name": str(file)})


def test_types_that_print_alike_differ():
    assert len({fingerprint(value) for value in (1, "1", 1.5, None, "None", True, [1], {"1": 1})}) == 8


def test_the_order_of_keys_does_not_count_and_that_of_lists_does():
    assert fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1})
    assert fingerprint([1, 2]) != fingerprint([2, 1])


def test_arrays_count_by_values_shape_and_type():
    array = np.arange(6, dtype=np.float32)
    same = fingerprint(array.copy())
    assert fingerprint(array) == same
    assert fingerprint(array.reshape(2, 3)) != same
    assert fingerprint(array.astype(np.float64)) != same
    assert fingerprint(array[::-1]) != same
    assert fingerprint(np.zeros((0, 3))) != fingerprint(np.zeros((3, 0)))


@pytest.mark.parametrize("settings", ["config", "generation_config"])
def test_the_same_weights_with_other_settings_are_another_model(settings: str, tmp_path: Path):
    model = pico.pair("gpt2")[0]
    model.save_pretrained(tmp_path / "copy")
    before = fingerprint(model)
    assert fingerprint(GPT2LMHeadModel.from_pretrained(tmp_path / "copy")) == before, "where it is says nothing"
    changed = {"config": ("activation_function", "relu"), "generation_config": ("max_new_tokens", 7)}
    setattr(getattr(model, settings), *changed[settings])
    assert fingerprint(model) != before
    assert fingerprint(getattr(model, settings)) != fingerprint(getattr(pico.pair("gpt2")[0], settings))


def test_models_tokenizers_corpora_and_tensors_count_by_content(tmp_path: Path):
    model, tokenizer = pico.pair("gpt2")
    before = fingerprint([model, tokenizer])
    with torch.no_grad():
        model.get_input_embeddings().weight[0, 0] += 1
    assert fingerprint([model, tokenizer]) != before
    tokenizer.model_max_length = 7
    assert fingerprint(tokenizer) != fingerprint(pico.pair("gpt2")[1])
    assert fingerprint(torch.zeros(2, dtype=torch.bfloat16)) != fingerprint(torch.zeros(2))
    wide, tall = torch.nn.Linear(2, 3, bias=False), torch.nn.Linear(3, 2, bias=False)
    tall.weight = torch.nn.Parameter(wide.weight.detach().reshape(2, 3))
    assert fingerprint(wide) != fingerprint(tall)
    (tmp_path / "a.txt").write_text("one\n")
    (tmp_path / "b.txt").write_text("two\n")
    first, second = (Corpus.open(tmp_path / name) for name in ("a.txt", "b.txt"))
    assert fingerprint(first) != fingerprint(second)


def test_a_value_without_defined_content_is_an_error():
    with pytest.raises(TypeError, match="no fingerprint"):
        fingerprint({"x": object()})
