"""A grafted model that is saved with links equals one that is saved in the ordinary way."""

from __future__ import annotations

import hashlib
import json
import os

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from relexify.grafting import graft
from relexify.methods.fvt import fvt
from relexify.pretrained.files import weights
from relexify.pretrained.files.weights import identify_weights, save_with_links, sha256_of_weights
from relexify.pretrained.loading import load_model, load_tokenizer
from relexify.pretrained.parameters.lexical import lexical_axes
from relexify.tokens import train_tokenizer_like
from tests import pico

INDEX = "model.safetensors.index.json"


def saved(family, folder, *, dtype=torch.float32, shard="1GB"):
    model, tokenizer = pico.pair(family)
    model.to(dtype).save_pretrained(folder, max_shard_size=shard)
    tokenizer.save_pretrained(folder)
    return folder


def grafted(folder):
    """A graft onto a model that is mapped from a folder, to another number of rows."""
    source = load_tokenizer(folder)
    target = train_tokenizer_like(source, lambda: pico.sentences(words=pico.foreign_words(), seed=3), 350)
    return graft(load_model(folder), target, fvt(source, target), pad_to_multiple_of=16, copy_inner=False)


def test_shards_in_folders_with_the_same_name_are_kept_apart(tmp_path):
    folder = saved("gpt2", tmp_path / "source")
    tensors, shards = load_file(folder / "model.safetensors"), {}
    (folder / "model.safetensors").unlink()
    for half, names in (("a", list(tensors)[::2]), ("b", list(tensors)[1::2])):
        (folder / half).mkdir()
        save_file({name: tensors[name] for name in names}, folder / half / "model.safetensors", {"format": "pt"})
        shards |= dict.fromkeys(names, f"{half}/model.safetensors")
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": shards}))
    model = grafted(folder)
    assert not save_with_links(model.model, tmp_path / "out", folder, changed=lexical_axes(model.model))
    assert sha256_of_weights(folder) is None


def assert_same(folder, other):
    first, second = load_model(folder), load_model(other)
    assert type(first) is type(second)
    ours, theirs = first.state_dict(), second.state_dict()
    assert list(ours) == list(theirs)
    for name, tensor in ours.items():
        assert tensor.dtype == theirs[name].dtype, name
        assert torch.equal(tensor, theirs[name]), name
    pointers = [len({tensor.data_ptr() for tensor in model.state_dict().values()}) for model in (first, second)]
    assert pointers[0] == pointers[1], "tied differently"
    for name in ("config.json", "generation_config.json"):
        files = [path / name for path in (folder, other)]
        assert [file.exists() for file in files] in ([True, True], [False, False])
        if files[0].exists():
            assert files[0].read_text() == files[1].read_text()


@pytest.mark.parametrize("shard", ["1GB", "20KB"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("family", list(pico.FAMILIES))
def test_linked_and_ordinary_folders_load_the_same_bits(family, dtype, shard, tmp_path):
    source = saved(family, tmp_path / "source", dtype=dtype, shard=shard)
    result = grafted(source)
    result.save(tmp_path / "ordinary")
    result.save(tmp_path / "linked", inner=source)
    assert_same(tmp_path / "linked", tmp_path / "ordinary")
    files = {path.name for path in source.glob("*.safetensors")}
    linked = [name for name in files if (tmp_path / "linked" / name).samefile(source / name)]
    if shard == "1GB":
        assert files == {"model.safetensors"}
        assert not linked
        return
    index, before = (json.loads((path / INDEX).read_text()) for path in (tmp_path / "linked", source))
    assert index["weight_map"] == before["weight_map"]
    lexical = {before["weight_map"].get(name) for name in lexical_axes(result.model)}
    assert set(linked) == files - lexical
    assert linked
    assert index["metadata"]["total_parameters"] == result.model.num_parameters()
    stored = [load_file(tmp_path / "linked" / name) for name in files]
    assert index["metadata"]["total_size"] == sum(t.nbytes for tensors in stored for t in tensors.values())


def test_a_checkpoint_with_both_tied_tensors_stays_tied(tmp_path):
    source = saved("llama tied", tmp_path / "source")
    tensors = load_file(source / "model.safetensors")
    tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"].clone()
    save_file(tensors, source / "model.safetensors", metadata={"format": "pt"})
    result = grafted(source)
    result.save(tmp_path / "ordinary")
    result.save(tmp_path / "linked", inner=source)
    assert "lm_head.weight" in load_file(tmp_path / "linked" / "model.safetensors")
    assert_same(tmp_path / "linked", tmp_path / "ordinary")


def test_a_checkpoint_without_the_prefix_of_the_base_model_is_linked(tmp_path):
    source = saved("gpt2", tmp_path / "source", shard="20KB")
    index = json.loads((source / INDEX).read_text())
    for file in set(index["weight_map"].values()):  # the checkpoint of GPT-2 on the Hub has such names
        tensors = {name.removeprefix("transformer."): tensor for name, tensor in load_file(source / file).items()}
        save_file(tensors, source / file, metadata={"format": "pt"})
    index["weight_map"] = {name.removeprefix("transformer."): file for name, file in index["weight_map"].items()}
    (source / INDEX).write_text(json.dumps(index))
    result = grafted(source)
    result.save(tmp_path / "ordinary")
    result.save(tmp_path / "linked", inner=source)
    assert "wte.weight" in json.loads((tmp_path / "linked" / INDEX).read_text())["weight_map"]
    assert_same(tmp_path / "linked", tmp_path / "ordinary")


def test_a_head_that_the_model_does_not_load_is_left_out(tmp_path):
    source = saved("llama untied", tmp_path / "source")
    headless = load_model(source).model
    result_config = headless.config
    result_config.architectures = ["LlamaModel"]
    result_config.save_pretrained(source)
    assert "lm_head.weight" in load_file(source / "model.safetensors")
    result = grafted(source)
    assert type(result.model).__name__ == "LlamaModel"
    result.save(tmp_path / "linked", inner=source)
    assert "lm_head.weight" not in load_file(tmp_path / "linked" / "model.safetensors")
    result.save(tmp_path / "ordinary")
    assert_same(tmp_path / "linked", tmp_path / "ordinary")


def test_files_of_another_dtype_than_the_config_says_load_the_same_bits(tmp_path):
    source = saved("llama untied", tmp_path / "source", shard="20KB")
    config = json.loads((source / "config.json").read_text())
    (source / "config.json").write_text(json.dumps({**config, "dtype": "bfloat16"}))
    result = grafted(source)
    assert result.model.dtype == torch.bfloat16
    result.save(tmp_path / "ordinary")
    result.save(tmp_path / "linked", inner=source)
    assert_same(tmp_path / "linked", tmp_path / "ordinary")


def test_a_model_without_safetensors_files_is_saved_in_the_ordinary_way(tmp_path):
    source = saved("gpt2", tmp_path / "source")
    result = grafted(source)
    result.save(tmp_path / "ordinary")
    os.rename(source / "model.safetensors", tmp_path / "elsewhere")
    (tmp_path / "empty").mkdir()
    assert not save_with_links(result.model, tmp_path / "empty", source, changed=result.report.lexical)
    assert not any((tmp_path / "empty").iterdir())
    result.save(tmp_path / "linked", inner=source)
    assert_same(tmp_path / "linked", tmp_path / "ordinary")


def test_writing_to_a_linked_folder_leaves_the_source_as_it_is(tmp_path):
    source = saved("llama untied", tmp_path / "source", shard="20KB")
    grafted(source).save(tmp_path / "linked", inner=source)
    before = {path.name: path.read_bytes() for path in source.iterdir()}
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "linked")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1)
    model.save_pretrained(tmp_path / "linked", max_shard_size="20KB")
    assert {path.name: path.read_bytes() for path in source.iterdir()} == before


def test_the_sha256_of_weights_is_that_of_the_file_and_of_several_that_of_their_list(tmp_path):
    one, several = saved("gpt2", tmp_path / "one"), saved("gpt2", tmp_path / "several", shard="20KB")
    assert sha256_of_weights(one) == hashlib.sha256((one / "model.safetensors").read_bytes()).hexdigest()
    files = sorted(several.glob("*.safetensors"))
    assert len(files) > 1
    listed = "".join(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files)
    assert sha256_of_weights(several) == hashlib.sha256(listed.encode()).hexdigest()
    files[0].write_bytes(files[0].read_bytes()[:-1] + b"x")
    assert sha256_of_weights(several) != hashlib.sha256(listed.encode()).hexdigest()


def test_the_sha256_of_a_file_in_the_cache_of_the_hub_is_its_name(tmp_path):
    folder = saved("gpt2", tmp_path / "snapshots" / "main")
    (tmp_path / "blobs").mkdir()
    name = "0123456789abcdef" * 4
    (folder / "model.safetensors").rename(tmp_path / "blobs" / name)
    (folder / "model.safetensors").symlink_to(tmp_path / "blobs" / name)
    assert sha256_of_weights(folder) == sha256_of_weights(folder, read=False) == name


@pytest.mark.parametrize("is_read", [True, False])
def test_the_files_of_a_large_model_are_not_read_for_its_hash_alone(is_read, tmp_path, monkeypatch):
    folder = saved("gpt2", tmp_path / "model", shard="20KB")
    model = AutoModelForCausalLM.from_pretrained(folder)
    assert identify_weights(folder, model, is_read=is_read) == sha256_of_weights(folder)
    monkeypatch.setattr(weights, "HASHED_BYTES", 0)
    assert identify_weights(folder, model, is_read=is_read) == (sha256_of_weights(folder) if is_read else None)
