"""What is known of the encoders that can be cut in two: BERT, RoBERTa and its like, and ALBERT."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.functional import linear
from transformers import AutoModel

from relexify.errors import GraftError
from relexify.pretrained.kinds import kind_of_config

__all__ = ["FAMILIES", "Family", "bare_backbone", "family_of", "layers_of", "new_layer", "positions_of", "widened"]


@dataclass(frozen=True)
class Family:
    """Where an architecture has what.

    Attributes:
        layers: The list of layers inside the encoder.
        dense: Inside a masked language model, the layer of the head before its norm.
        norm: That norm.
        decoder: The last layer of the head.
        head_activation: Between the two; that of the config if None.
    """

    layers: str
    dense: str
    norm: str
    decoder: str
    head_activation: str | None = None


_ROBERTA = Family("encoder.layer", "lm_head.dense", "lm_head.layer_norm", "lm_head.decoder", "gelu")
FAMILIES: Mapping[str, Family] = {
    "bert": Family(
        "encoder.layer",
        "cls.predictions.transform.dense",
        "cls.predictions.transform.LayerNorm",
        "cls.predictions.decoder",
    ),
    "roberta": _ROBERTA,
    "xlm-roberta": _ROBERTA,
    "camembert": _ROBERTA,
    "albert": Family(
        "encoder.albert_layer_groups", "predictions.dense", "predictions.LayerNorm", "predictions.decoder"
    ),
}
"""Families by the model type of their configs."""


def family_of(config: Any) -> Family:
    """The family of a config.

    Raises:
        GraftError: A TRILayer cannot be put into such a model.
    """
    kind = str(getattr(config, "model_type", None))
    if kind not in FAMILIES or getattr(config, "is_decoder", False):
        raise GraftError(
            f"a TRILayer cannot be put into a model of the type {kind!r}: give a masked language model of the type "
            f"{', '.join(FAMILIES)}"
        )
    model_kind = kind_of_config(config)
    if model_kind is not None and model_kind.fixed_vocabulary is not None:
        raise GraftError(f"a TRILayer cannot be put into a {model_kind.name}: {model_kind.fixed_vocabulary}")
    return FAMILIES[kind]


def bare_backbone(config: Any, *, pooled: bool) -> Any:
    """An encoder without head, and with a pooler only where asked."""
    return AutoModel.from_config(config, trust_remote_code=False, add_pooling_layer=pooled)


def layers_of(backbone: Any) -> list[nn.Module]:
    """The layers of an encoder, from the first to the last."""
    return list(backbone.get_submodule(family_of(backbone.config).layers))


def new_layer(backbone: Any) -> nn.Module:
    """One more layer like those of an encoder, with parameters of its own."""
    built: nn.Module = type(layers_of(backbone)[0])(backbone.config)
    return built


def positions_of(backbone: Any, counted: torch.Tensor) -> torch.Tensor:
    """Positions as an encoder counts them: from 0, or from after the padding token's number.

    Args:
        backbone: The encoder.
        counted: 1 for what is no padding [batch × tokens].

    Returns:
        [batch × tokens], or [1 × tokens] where padding is counted too.
    """
    padding = backbone.embeddings.position_embeddings.padding_idx
    if padding is None:
        return torch.arange(counted.shape[1], device=counted.device)[None]
    counted = counted.long()
    positions: torch.Tensor = counted.cumsum(dim=1) * counted + padding
    return positions


def widened(backbone: Any, vectors: torch.Tensor, *, shifted: bool = True) -> torch.Tensor:
    """Vectors of an embedding in the width of the layers; ALBERT alone has narrower ones.

    Args:
        backbone: The encoder.
        vectors: [… × width of the embeddings].
        shifted: Add the bias of the projection, as is done with the embeddings of a sentence.
    """
    mapping = getattr(backbone.encoder, "embedding_hidden_mapping_in", None)
    if mapping is None:
        return vectors
    return linear(vectors, mapping.weight, mapping.bias if shifted else None)
