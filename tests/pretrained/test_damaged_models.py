"""Whatever is wrong with a model folder is an `InputError`, and pickles are not executed."""

from __future__ import annotations

import json
import os
import pickle
import struct
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from relexify.errors import InputError, first_line
from relexify.pretrained.files.embedding import read_embedding
from relexify.pretrained.files.tokenizer import read_local_backend
from relexify.pretrained.kinds import kind_of_folder
from relexify.pretrained.loading import load_config, load_model, load_tokenizer, meta_model
from relexify.pretrained.runtime.quiet import save_model
from tests import pico
from tests.hostile import MakeFolder

CONFIGS = {
    "a class that is no model": {"architectures": ["Trainer"]},
    "a function": {"architectures": ["pipeline"]},
    "a number as class": {"architectures": [5]},
    "a number as classes": {"architectures": 5},
    "a billion layers": {"n_layer": 10**9},
    "a width that the weights do not have": {"n_embd": 34},
    "no attention heads": {"n_head": 0},
    "negative number of layers": {"n_layer": -1},
    "width that is no number": {"n_embd": "x"},
    "a TRILayer without fields": {"model_type": "relexify-trilayer"},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return pico.saved("gpt2", tmp_path / "model")


@pytest.mark.parametrize("name", CONFIGS)
def test_a_damaged_config_is_an_input_error_or_harmless(folder: Path, name: str) -> None:
    pico.edit_json(folder / "config.json", **CONFIGS[name])
    for load in (meta_model, load_model):
        with suppress(InputError):
            assert type(load(folder)).__name__ == "GPT2LMHeadModel"


@pytest.mark.parametrize("text", ["[" * 100_000, '{"model_type": ' + "[" * 100_000, "", "5", "\0"])
def test_a_config_that_is_not_json_is_an_input_error(folder: Path, text: str) -> None:
    (folder / "config.json").write_text(text)
    with pytest.raises(InputError, match="that can be loaded"):
        load_config(folder)


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({"temperature": 0.6, "top_p": 0.9}, {"temperature": 0.6, "top_p": 0.9, "do_sample": True}),
        ({"length_penalty": 2.0}, {}),  # without beams
    ],
)
def test_options_of_generation_that_transformers_does_not_save_are_corrected(
    folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, options: dict[str, object], kept: dict[str, object]
) -> None:
    (folder / "generation_config.json").write_text(json.dumps(options))
    model = load_model(folder)
    assert "generation_config.json" in caplog.text
    save_model(model, tmp_path / "saved")
    saved = json.loads((tmp_path / "saved" / "generation_config.json").read_text())
    assert {name: value for name, value in saved.items() if name in {*options, "do_sample"}} == kept


def test_a_bilingual_model_without_languages_is_an_input_error(folder: Path) -> None:
    pico.edit_json(folder / "config.json", model_type="relexify-bilingual", languages=5)
    kind = kind_of_folder(folder)
    assert kind is not None
    assert kind.languages(folder) == ()
    with pytest.raises(InputError, match="choose a language"):
        load_model(folder)
    with pytest.raises(InputError, match="cannot be loaded"):
        kind.load_language(folder, "en")


@pytest.mark.parametrize("sharded", [False, True])
def test_a_pickle_with_code_in_it_is_rejected_and_not_executed(folder: Path, tmp_path: Path, sharded: bool) -> None:
    (folder / "model.safetensors").unlink()
    name = "pytorch_model-00001-of-00001.bin" if sharded else "pytorch_model.bin"
    (folder / name).write_bytes(pickle.dumps(MakeFolder(tmp_path / "executed")))
    if sharded:
        index = {"metadata": {}, "weight_map": {"transformer.wte.weight": name}}
        (folder / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    with pytest.raises(InputError, match="are a pickle that contains more than numbers"):
        load_model(folder)
    assert not (tmp_path / "executed").exists()


def test_weights_in_a_pickle_of_numbers_are_loaded(folder: Path) -> None:
    expected = load_model(folder)
    (folder / "model.safetensors").unlink()
    torch.save(expected.state_dict(), folder / "pytorch_model.bin")
    loaded = load_model(folder)
    assert all(torch.equal(loaded.state_dict()[name], value) for name, value in expected.state_dict().items())


@pytest.mark.parametrize("index_file", ["model.safetensors.index.json", "pytorch_model.bin.index.json"])
@pytest.mark.parametrize("outside", ["../other/model.safetensors", "sub/../../other/model.safetensors", "absolute"])
def test_a_shard_outside_the_folder_is_not_read(folder: Path, tmp_path: Path, outside: str, index_file: str) -> None:
    other = pico.saved("gpt2", tmp_path / "other") / "model.safetensors"
    (folder / "model.safetensors").unlink()
    (folder / "sub").mkdir()
    name = str(other) if outside == "absolute" else outside
    index = {"metadata": {}, "weight_map": dict.fromkeys(load_file(other), name)}
    (folder / index_file).write_text(json.dumps(index))
    with pytest.raises(InputError, match="which is outside its folder"):
        load_model(folder)


@pytest.mark.parametrize("shards", [None, 5, [], {"transformer.wte.weight": "a\0b"}])
def test_an_index_that_names_no_files_is_an_input_error(folder: Path, shards: object) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": shards}))
    with pytest.raises(InputError, match="does not name a file for each parameter"):
        load_model(folder)


@pytest.mark.parametrize("content", [b"", b"junk", struct.pack("<Q", 2**62) + b"{}", struct.pack("<Q", 2) + b"[]"])
def test_files_that_are_not_loaded_are_not_read(folder: Path, content: bytes) -> None:
    (folder / "model-old.safetensors").write_bytes(content)
    load_model(folder)


def test_a_config_with_a_billion_labels_is_rejected_before_they_are_named(folder: Path) -> None:
    pico.edit_json(folder / "config.json", num_labels=10**9)
    with pytest.raises(InputError, match=f"num_labels = {10**9}"):
        load_config(folder)


TOKENIZERS: dict[str, dict[str, object]] = {
    "a template with a token that it does not describe": {
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "[X]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [],
            "special_tokens": {},
        }
    },
    "empty text to replace": {"normalizer": {"type": "Replace", "pattern": {"String": ""}, "content": "x"}},
    "no token for unknown words": {"model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "[UNK]"}},
}


@pytest.mark.parametrize("name", TOKENIZERS)
def test_a_tokenizer_that_fails_on_text_is_an_input_error(
    folder: Path, name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    pico.edit_json(folder / "tokenizer.json", **TOKENIZERS[name])
    with pytest.raises(InputError, match="tokenizer"):
        load_tokenizer(folder)
    assert "panicked" not in capfd.readouterr().err


GROWING = {
    "thirty rules that double a letter": (
        "normalizer",
        [{"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}],
    ),
    "thirty rules for any letter": ("normalizer", [{"type": "Replace", "pattern": {"Regex": "."}, "content": "aa"}]),
    "a long prefix": ("normalizer", [{"type": "Prepend", "prepend": "a" * 100}]),
    "bytes of bytes": (
        "pre_tokenizer",
        [{"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": False}],
    ),
    "thirty rules for the text that is written": (
        "decoder",
        [{"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}],
    ),
}


@pytest.mark.parametrize("name", GROWING)
def test_a_tokenizer_that_multiplies_text_is_rejected_before_it_reads_any(folder: Path, name: str) -> None:
    part, rules = GROWING[name]
    names = {"normalizer": "normalizers", "pre_tokenizer": "pretokenizers", "decoder": "decoders"}
    pico.edit_json(folder / "tokenizer.json", **{part: {"type": "Sequence", names[part]: rules * 30}})
    for load in (load_tokenizer, read_local_backend):
        with pytest.raises(InputError, match=rf"the {part} of .* may make text .* times as long") as raised:
            load(str(folder))
        assert len(str(raised.value)) < 400 + len(str(folder))


@pytest.mark.parametrize("size", ["pieces", "ids"])
def test_a_template_that_repeats_a_text_is_rejected(folder: Path, size: str) -> None:
    text, token = {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "x", "type_id": 0}}
    many = 100_000
    template = {
        "type": "TemplateProcessing",
        "single": [text] * many if size == "pieces" else [text, token],
        "pair": [text, {"Sequence": {"id": "B", "type_id": 0}}],
        "special_tokens": {"x": {"id": "x", "ids": [0] * many, "tokens": ["a"] * many}} if size == "ids" else {},
    }
    pico.edit_json(folder / "tokenizer.json", post_processor=template)
    with pytest.raises(InputError, match=r"its template has .* more than"):
        load_tokenizer(folder)


@pytest.mark.parametrize("role", ["unk_token", "bos_token", "pad_token"])
def test_a_special_token_that_is_empty_text_is_left_out_with_a_warning(
    folder: Path, role: str, caplog: pytest.LogCaptureFixture
) -> None:
    pico.edit_json(folder / "tokenizer_config.json", **{role: ""})
    tokenizer = load_tokenizer(folder)
    assert getattr(tokenizer, role) is None
    assert getattr(tokenizer, f"{role}_id") is None
    assert f"the {role} of the tokenizer of {folder} is empty text" in caplog.text


@pytest.mark.parametrize("id", [10**9, 10**30, -1, "x"])
@pytest.mark.parametrize("where", ["vocab", "added_tokens"])
def test_a_token_id_that_tokenizers_would_abort_on_is_an_input_error(folder: Path, where: str, id: object) -> None:
    state = json.loads((folder / "tokenizer.json").read_text())
    if where == "vocab":
        state["model"]["vocab"]["zzz"] = id
    else:
        state["added_tokens"][0]["id"] = id
    (folder / "tokenizer.json").write_text(json.dumps(state))
    with pytest.raises(InputError, match="a token has the id"):
        load_tokenizer(folder)


@pytest.mark.parametrize("entries", [{"n_embd": 34}, {"vocab_size": 5}, {"vocab_size": 10**9}, {"n_positions": 7}])
def test_weights_of_other_shapes_than_the_config_says_are_named_so(folder: Path, entries: dict[str, int]) -> None:
    pico.edit_json(folder / "config.json", **entries)
    with pytest.raises(InputError, match="do not have the shapes that its config describes"):
        load_model(folder)


def test_a_tensor_of_another_shape_is_named_with_both_shapes(folder: Path) -> None:
    file = folder / "model.safetensors"
    tensors = load_file(file)
    name = next(name for name in tensors if name.endswith("wte.weight"))
    rows, width = tensors[name].shape
    save_file({**tensors, name: tensors[name][:-1].contiguous()}, file, {"format": "pt"})
    shapes = rf"\({name} is {rows - 1} × {width} in model.safetensors, but {rows} × {width} according to the config\)"
    with pytest.raises(InputError, match=shapes):
        load_model(folder)
    pico.edit_json(folder / "config.json", n_embd=2 * width)
    with pytest.raises(InputError, match=r"according to the config, …\): check that config.json and the weights"):
        load_model(folder)


def test_a_quoted_message_has_its_second_line_and_none_of_relexifys_marks_for_options(folder: Path) -> None:
    pico.edit_json(folder / "config.json", vocab_size="x")
    with pytest.raises(InputError, match=r"field 'vocab_size': TypeError"):
        load_config(folder)
    pico.edit_json(folder / "config.json", model_type="nothing")
    with pytest.raises(InputError, match="has model type 'nothing'"):
        load_config(folder)
    assert first_line(KeyError("added_tokens")) == "there is no 'added_tokens'"


@pytest.mark.filterwarnings("ignore:Casting complex values")
@pytest.mark.parametrize("kind", [torch.int32, torch.uint8, torch.bool, torch.complex64, torch.float8_e4m3fn])
def test_integers_and_numbers_of_8_bits_are_no_weights(folder: Path, kind: torch.dtype) -> None:
    file = folder / "model.safetensors"
    save_file({name: tensor.to(kind) for name, tensor in load_file(file).items()}, file, {"format": "pt"})
    with pytest.raises(InputError, match="weights must be floating-point numbers"):
        load_model(folder)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_a_pipe_among_the_files_is_rejected_and_not_waited_for(folder: Path, name: str) -> None:
    (folder / name).unlink()
    os.mkfifo(folder / name)
    for load in (load_config, load_model, load_tokenizer):
        with pytest.raises(InputError, match=f"{name} is not a regular file"):
            load(folder)


def test_two_tokens_with_one_id_are_rejected(folder: Path) -> None:
    file = folder / "tokenizer.json"
    state = json.loads(file.read_text())
    first, second = list(state["model"]["vocab"])[:2]
    state["model"]["vocab"][first] = state["model"]["vocab"][second]
    file.write_text(json.dumps(state))
    with pytest.raises(InputError, match="two tokens of its vocabulary have the same id"):
        load_tokenizer(folder)


@pytest.mark.parametrize("text", ["AAAA", "/////w==", "no base 64", "AAAAAP8="])
def test_a_damaged_character_map_is_rejected_before_it_is_parsed(tmp_path: Path, text: str) -> None:
    folder = pico.saved("t5", tmp_path / "model")
    normaliser = {"type": "Precompiled", "precompiled_charsmap": text}
    pico.edit_json(folder / "tokenizer.json", normalizer={"type": "Sequence", "normalizers": [normaliser]})
    with pytest.raises(InputError, match="character map of its normaliser"):
        load_tokenizer(folder)


def test_the_embedding_of_a_truncated_file_is_an_input_error(folder: Path) -> None:
    file = folder / "model.safetensors"
    assert read_embedding(folder) is not None
    file.write_bytes(file.read_bytes()[:-5])
    with pytest.raises(InputError, match=r"model\.safetensors is damaged"):
        read_embedding(folder)


def test_an_adapter_beside_the_weights_is_rejected_because_it_alone_would_be_saved(folder: Path):
    peft = pytest.importorskip("peft")
    options = {"r": 2, "target_modules": ["c_attn"], "fan_in_fan_out": True}
    peft.get_peft_model(load_model(folder), peft.LoraConfig(**options)).save_pretrained(folder)
    for load in (load_config, load_model, load_tokenizer, meta_model):
        with pytest.raises(InputError, match=r"peft adapter .* merge it into the weights"):
            load(folder)


def test_a_config_that_quantises_weights_when_they_are_loaded_is_an_input_error(folder: Path):
    pytest.importorskip("bitsandbytes")
    config = json.loads((folder / "config.json").read_text())
    quantised = {"quant_method": "bitsandbytes", "load_in_4bit": True}
    (folder / "config.json").write_text(json.dumps({**config, "quantization_config": quantised}))
    with pytest.raises(InputError, match="before quantisation"):
        load_model(folder)
