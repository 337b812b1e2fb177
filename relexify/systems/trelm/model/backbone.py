"""The encoders to which a TRILayer can be added (BERT, RoBERTa and relatives, ALBERT), and the names of their parts.

An XLM is converted to a BERT first (xlm.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.functional import linear
from transformers import AutoModel, PreTrainedConfig, PreTrainedModel

from relexify.errors import GraftError
from relexify.pretrained.kinds import kind_of_config

__all__ = ["FAMILIES", "Family", "build_backbone", "encoder_layers", "family_of", "new_layer", "position_ids", "widen"]


@dataclass(frozen=True)
class Family:
    """Names of the parts of an architecture.

    Attributes:
        layers: The list of layers inside the encoder.
        dense: The linear layer before the norm in the head of a masked language model.
        norm: The norm of the head.
        head_activation: The activation between the dense layer and the norm; if None, the config's activation.
    """

    layers: str
    dense: str
    norm: str
    head_activation: str | None = None


_ROBERTA = Family("encoder.layer", "lm_head.dense", "lm_head.layer_norm", "gelu")
FAMILIES: Mapping[str, Family] = {
    "bert": Family("encoder.layer", "cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm"),
    "roberta": _ROBERTA,
    "xlm-roberta": _ROBERTA,
    "camembert": _ROBERTA,
    "albert": Family("encoder.albert_layer_groups", "predictions.dense", "predictions.LayerNorm"),
}
"""Families by the model type of their configs."""


def family_of(config: PreTrainedConfig) -> Family:
    """Return the family of a config.

    Raises:
        GraftError: A TRILayer cannot be added to such a model.
    """
    model_type = str(getattr(config, "model_type", None))
    if model_type not in FAMILIES or getattr(config, "is_decoder", False):
        raise GraftError(
            f"a TRILayer cannot be added to a model of the type {model_type!r}: give a masked language model of the "
            f"type {', '.join(FAMILIES)} or xlm"
        )
    model_kind = kind_of_config(config)
    if model_kind is not None and model_kind.fixed_vocabulary is not None:
        raise GraftError(f"a TRILayer cannot be added to a {model_kind.name}: {model_kind.fixed_vocabulary}")
    return FAMILIES[model_type]


def build_backbone(config: PreTrainedConfig, *, with_pooler: bool) -> PreTrainedModel:
    """Return an untrained encoder without a head; its pooler is needed only for next sentences."""
    return AutoModel.from_config(config, trust_remote_code=False, add_pooling_layer=with_pooler)


def encoder_layers(backbone: PreTrainedModel) -> list[nn.Module]:
    """Return the layers of an encoder, from the first to the last."""
    return list(backbone.get_submodule(family_of(backbone.config).layers))


def new_layer(backbone: PreTrainedModel) -> nn.Module:
    """Return an untrained layer of the same class as the layers of an encoder."""
    built: nn.Module = type(encoder_layers(backbone)[0])(backbone.config)
    return built


def position_ids(backbone: PreTrainedModel, mask: torch.Tensor) -> torch.Tensor:
    """Return positions as an encoder counts them: BERT from 0, RoBERTa from its padding id + 1.

    Args:
        backbone: The encoder.
        mask: 1 for tokens, 0 for padding [batch × tokens].

    Returns:
        Positions [batch × tokens], or [1 × tokens] if padding is also counted.
    """
    padding = backbone.embeddings.position_embeddings.padding_idx
    if padding is None:
        return torch.arange(mask.shape[1], device=mask.device)[None]
    mask = mask.long()
    positions: torch.Tensor = mask.cumsum(dim=1) * mask + padding
    return positions


def widen(backbone: PreTrainedModel, vectors: torch.Tensor, *, bias: bool = True) -> torch.Tensor:
    """Project embeddings to the width of the layers; only ALBERT's embeddings are narrower.

    Args:
        backbone: The encoder.
        vectors: [… × width of the embeddings].
        bias: Add the bias of the projection; it must be added to the embedding of a sentence only once.
    """
    mapping = getattr(backbone.encoder, "embedding_hidden_mapping_in", None)
    if mapping is None:
        return vectors
    return linear(vectors, mapping.weight, mapping.bias if bias else None)
