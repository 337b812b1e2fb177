"""Facts about the architectures of transformers: what a model predicts and reads, its parts, and their sizes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tokenizers import Tokenizer
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerFast
from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES

from relexify.errors import VocabularyError
from relexify.pretrained.kinds import kind_of_config

__all__ = [
    "IGNORED",
    "Architecture",
    "LayerSizes",
    "architecture_in_config",
    "architecture_of",
    "check_fit",
    "declares_tied_embeddings",
    "encoder_frame",
    "hidden_width",
    "initial_deviation",
    "inner_encoder",
    "layer_sizes",
    "logit_factor",
    "position_padding",
    "saved_class",
    "token_types",
    "tokenizer_frame",
    "usable_length",
    "vocabulary_rows",
]

Architecture = Literal["decoder", "encoder", "encoder-decoder", "headless"]
"""A decoder predicts the next token, an encoder masked tokens; a headless model has no language-modelling head."""

_EITHER = ("xlm", "flaubert")
"""Model types that can be either: their class (`XLMWithLMHeadModel`) has one head, and `config.causal` decides."""

IGNORED = -100
"""The label of a position that has no loss; the default of torch's cross entropy and of transformers."""


@dataclass(frozen=True)
class LayerSizes:
    """The sizes of a model's layers.

    Attributes:
        layers: Number of layers.
        width: Width of the hidden states.
        heads: Number of attention heads.
        key_heads: Number of heads of keys and values; fewer than `heads` if several queries share them.
        head_width: Width of a head.
        experts: Number of experts that a token uses; None for a model without experts.
    """

    layers: int
    width: int
    heads: int
    key_heads: int
    head_width: int
    experts: int | None


def architecture_of(model: PreTrainedModel) -> Architecture:
    """Return the architecture of a loaded model, which determines what it predicts."""
    name = type(model).__name__
    # BertForPreTraining and its relatives have several heads, and no output called `logits`.
    if model.get_output_embeddings() is None or name.endswith("ForPreTraining"):
        return "headless"
    if getattr(model.config, "is_encoder_decoder", False):
        return "encoder-decoder"
    if model.config.model_type in _EITHER:
        return "decoder" if model.config.causal else "encoder"
    return "encoder" if name.endswith("ForMaskedLM") else "decoder"


def architecture_in_config(config: PreTrainedConfig) -> Architecture:
    """Return the architecture that a config describes, independent of the head: encoder, decoder or encoder-decoder."""
    kind = kind_of_config(config)
    if kind is not None and kind.is_encoder:
        return "encoder"
    if getattr(config, "is_encoder_decoder", False):
        return "encoder-decoder"
    if config.model_type in _EITHER:
        return "decoder" if config.causal else "encoder"
    names = [str(name) for name in getattr(config, "architectures", None) or []]
    if getattr(config, "is_decoder", False) or any("CausalLM" in name or "LMHead" in name for name in names):
        return "decoder"
    return "encoder" if config.model_type in MODEL_FOR_MASKED_LM_MAPPING_NAMES else "decoder"


def saved_class(config: PreTrainedConfig) -> str:
    """Return the name of the class that a model was saved with, or its model type if the config names no class."""
    names = getattr(config, "architectures", None) or [config.model_type]
    return str(names[0])


def inner_encoder(model: PreTrainedModel) -> PreTrainedModel:
    """Return the part of a model that computes hidden states; for an encoder-decoder, its encoder."""
    inner = model.base_model
    return inner.get_encoder() if getattr(model.config, "is_encoder_decoder", False) else inner


def position_padding(model: PreTrainedModel) -> int | None:
    """Return the padding id that a model counts positions from, or None if it counts them from 0.

    RoBERTa and its relatives give the first token of a text the position `padding id + 1`, so a vocabulary with another
    padding id would shift every position.
    """
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and getattr(module, "padding_idx", None) is not None:
            return int(module.padding_idx)
    return None


def usable_length(model: PreTrainedModel) -> int | None:
    """Return the length of the longest sequence that a model can read, or None if there is no limit."""
    positions = getattr(model.config, "max_position_embeddings", None)
    if not positions:
        return None
    padding = position_padding(model)
    return int(positions) if padding is None else int(positions) - padding - 1


def hidden_width(model: PreTrainedModel) -> int:
    """Return the width of the hidden states; if the config lacks it (bilingual models), the width of the embeddings."""
    width = getattr(model.config.get_text_config(), "hidden_size", None)
    return int(width or model.get_input_embeddings().weight.shape[-1])


def layer_sizes(model: PreTrainedModel) -> LayerSizes:
    """Return the sizes of a model's layers; the model may be on the meta device."""
    config, width = model.config.get_text_config(), hidden_width(model)
    heads = getattr(config, "num_attention_heads", None) or 1
    return LayerSizes(
        layers=int(config.num_hidden_layers),
        width=width,
        heads=heads,
        key_heads=getattr(config, "num_key_value_heads", None) or heads,
        head_width=getattr(config, "head_dim", None) or width // heads,
        experts=getattr(config, "num_experts_per_tok", None),
    )


def token_types(config: PreTrainedConfig) -> int:
    """Return the number of token types (first text, second text) that a model distinguishes; 0 if it has none."""
    return int(getattr(config, "type_vocab_size", 0) or 0)


def vocabulary_rows(config: PreTrainedConfig) -> int | None:
    """Return the number of embedding rows according to a config, including padding; None if the config lacks it."""
    rows: int | None = getattr(config.get_text_config(), "vocab_size", None)
    return rows


def declares_tied_embeddings(config: PreTrainedConfig) -> bool:
    """Whether a config says that the input and the output embedding are one tensor."""
    return bool(getattr(config.get_text_config(), "tie_word_embeddings", False))


def check_fit(model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast) -> None:
    """Validate that a model has an embedding for every token of a tokenizer.

    Raises:
        VocabularyError: The tokenizer has ids beyond the last row.
    """
    embedding = model.get_input_embeddings()
    rows = getattr(embedding, "num_embeddings", None) or embedding.weight.shape[0]
    highest = max(tokenizer.get_vocab().values())
    if highest >= rows:
        raise VocabularyError(
            f"the tokenizer has {highest + 1} tokens, but the model has only {rows} embeddings: "
            "they do not belong together; give the model's own tokenizer"
        )
    # The post-processor stores its own ids of special tokens; no library compares them with the vocabulary.
    around = max((max(ids) for ids in tokenizer_frame(tokenizer.backend_tokenizer) if ids), default=0)
    if around >= rows:
        raise VocabularyError(
            f"the tokenizer adds a special token with the id {around}, but the model has only {rows} embeddings: "
            "give the model's own tokenizer"
        )


def encoder_frame(tokenizer: PreTrainedTokenizerFast) -> tuple[list[int], list[int]]:
    """Return the ids of the special tokens before and after each text that an encoder reads."""
    first = tokenizer.cls_token_id if tokenizer.cls_token_id is not None else tokenizer.bos_token_id
    last = tokenizer.sep_token_id if tokenizer.sep_token_id is not None else tokenizer.eos_token_id
    return [] if first is None else [first], [] if last is None else [last]


def tokenizer_frame(backend: Tokenizer) -> tuple[list[int], list[int]]:
    """Return the ids of the special tokens that a tokenizer itself puts before and after a text.

    For decoders, they may differ from `encoder_frame`: many tokenizers of decoders add no special tokens.
    """
    encoding = backend.encode("a", add_special_tokens=True)
    text = [index for index, special in enumerate(encoding.special_tokens_mask) if not special]
    if not text:
        return encoding.ids, []
    return encoding.ids[: text[0]], encoding.ids[text[-1] + 1 :]


def logit_factor(config: PreTrainedConfig) -> float:
    """Return the factor by which a model multiplies the output of its head (Granite, Cohere, Falcon-H1); else 1."""
    divisor = getattr(config, "logits_scaling", None)
    if divisor:
        return 1 / float(divisor)
    factor = getattr(config, "logit_scale", None) or getattr(config, "lm_head_multiplier", None)
    return float(factor) if factor else 1.0


def initial_deviation(config: PreTrainedConfig) -> float:
    """Return the standard deviation that a model's embeddings are initialised with."""
    names = ("initializer_range", "init_std", "initializer_factor")  # initializer_factor: T5 and its relatives
    return next((float(value) for value in (getattr(config, name, None) for name in names) if value), 0.02)
