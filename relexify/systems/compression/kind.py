"""The kind of model that this system writes: any transformers model with sub-embeddings in place of embeddings."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from relexify.errors import GraftError
from relexify.pretrained.kinds import MODEL_KINDS, ModelKind

if TYPE_CHECKING:
    from transformers import PreTrainedModel

__all__ = ["CONFIG_ENTRY"]

CONFIG_ENTRY = "sub_embedding"
"""The entry of config.json with the sizes of the tables."""


def _convert_class(plain: type[PreTrainedModel]) -> type[PreTrainedModel]:
    from relexify.systems.compression.model import compressed_class

    converted: type[PreTrainedModel] = compressed_class(plain)
    return converted


def _convert_encoder(model: PreTrainedModel) -> None:
    from relexify.systems.compression.model import install, layout_of

    if getattr(model.config, "is_encoder_decoder", False):
        raise GraftError(
            f"the encoder of a compressed {type(model).__name__} cannot be used without its decoder: expand the model "
            "first (relexify expand)"
        )
    layout = layout_of(model.config)
    if layout is not None:
        install(model, replace(layout, head="plain"))


MODEL_KINDS.add(
    "compressed",
    ModelKind(
        name="compressed model",
        config_entry=CONFIG_ENTRY,
        convert_class=_convert_class,
        convert_encoder=_convert_encoder,
        fixed_vocabulary="its embedding is compressed, and its tokens share parameters: expand it first "
        "(relexify expand)",
    ),
)
