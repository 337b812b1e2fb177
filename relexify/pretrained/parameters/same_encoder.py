"""Check that two models share an encoder: all parameters except those of the vocabulary must be equal."""

from __future__ import annotations

import logging
from collections.abc import Collection

import torch
from transformers import PreTrainedModel

from relexify.errors import GraftError
from relexify.pretrained.architecture import position_padding

__all__ = ["check_same_encoder", "warn_if_trained_apart"]

logger = logging.getLogger(__name__)


def check_same_encoder(
    first: PreTrainedModel,
    second: PreTrainedModel,
    lexical: Collection[str],
    *,
    names: tuple[str, str] = ("one model", "the other"),
) -> None:
    """Validate that all shapes of two models are equal, except for the number of tokens; values may differ.

    Args:
        first: A model, or only its encoder.
        second: The other model, or only its encoder.
        lexical: Names of the parameters and buffers with one entry per token.
        names: The names of the two models in messages.

    Raises:
        GraftError: Their parameters have different shapes, or they count positions from different padding ids.
    """
    shapes, other_shapes = ({name: tuple(t.shape) for name, t in _state(model).items()} for model in (first, second))
    for name in sorted({*shapes, *other_shapes}):
        shape, other_shape = shapes.get(name), other_shapes.get(name)
        start = 1 if name in lexical else 0
        if shape is None or other_shape is None or shape[start:] != other_shape[start:]:
            raise GraftError(
                f"the two models do not share an encoder: {name} is {_shown(shape)} in {names[0]}, but "
                f"{_shown(other_shape)} in {names[1]}; give a model that relexify transfer wrote, and the model that "
                "it was transferred from"
            )
    # Compare the padding ids of the configs, because models are rebuilt from them; `position_padding` only tells
    # whether padding ids matter.
    padding, other_padding = (
        None if position_padding(model) is None else model.config.pad_token_id for model in (first, second)
    )
    if padding != other_padding:
        raise GraftError(
            f"positions are counted from the padding id, which is {padding} in {names[0]}, but {other_padding} in "
            f"{names[1]}: give models with the same padding id"
        )


def warn_if_trained_apart(first: PreTrainedModel, second: PreTrainedModel, lexical: Collection[str]) -> None:
    """Warn if the encoders of two models have equal shapes but different values; the first encoder is used.

    Args:
        first: A model, or only its encoder.
        second: The other model, or only its encoder.
        lexical: Names of the parameters and buffers with one entry per token.
    """
    values, other_values = _state(first), _state(second)
    inner = [name for name in values if name not in lexical]
    changed = [name for name in inner if not torch.equal(values[name].cpu().float(), other_values[name].cpu().float())]
    if changed:
        logger.warning(
            "the encoders of the two models differ in %d of %d parameters: the encoder of the first is used, "
            "although the embeddings of the second were trained with its own",
            len(changed),
            len(inner),
        )


def _state(model: PreTrainedModel) -> dict[str, torch.Tensor]:
    """Return all parameters and buffers except the pooler's, because the pooler belongs to the head of classifiers."""
    return {name: tensor for name, tensor in model.state_dict().items() if "pooler" not in name.split(".")}


def _shown(shape: tuple[int, ...] | None) -> str:
    return "missing" if shape is None else str(shape)
