"""Find the parameters of a model that belong to its vocabulary, and their number of rows."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping
from pathlib import Path
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import nn
from transformers import PreTrainedModel

from relexify.errors import GraftError
from relexify.pretrained.kinds import kind_of_config
from relexify.pretrained.loading import meta_model

__all__ = ["count_rows", "embedding_names", "lexical_axes", "resize", "weight_rows"]

_CACHE: WeakKeyDictionary[PreTrainedModel, tuple[dict[str, tuple[int, ...]], dict[str, int]]] = WeakKeyDictionary()
"""Cached shapes and lexical axes of models; a training run needs them several times."""


def lexical_axes(model: PreTrainedModel) -> dict[str, int]:
    """Return the names of the parameters and buffers with one entry per token, and their token axis.

    To find them, `resize_token_embeddings` is applied to a copy of the model on the meta device: exactly the tensors
    that it resizes are lexical (input embedding, untied head, output bias, `final_logits_bias`, …).

    Raises:
        GraftError: The vocabulary of the model cannot be resized.
    """
    kind = kind_of_config(model.config)
    if kind is not None and kind.fixed_vocabulary is not None:
        raise GraftError(f"{type(model).__name__} cannot change its vocabulary: {kind.fixed_vocabulary}")
    rows, shapes = count_rows(model), _shapes(model)
    cached_shapes, cached_axes = _CACHE.get(model, ({}, {}))
    if cached_shapes == shapes:
        return dict(cached_axes)
    try:
        with torch.device("meta"):
            twin = type(model)(copy.deepcopy(model.config))
        before = _shapes(twin)
        resize(twin, rows + 8)
    except (NotImplementedError, AttributeError, TypeError, RuntimeError) as error:
        raise GraftError(f"{type(model).__name__} cannot change its vocabulary: {error}") from error
    after = _shapes(twin)
    axes = {
        name: next(axis for axis, (old, new) in enumerate(zip(shape, after[name], strict=True)) if old != new)
        for name, shape in before.items()
        if after[name] != shape
    }
    _check_axes(model, shapes, axes, rows)
    _CACHE[model] = shapes, dict(axes)
    return axes


def resize(model: PreTrainedModel, rows: int) -> None:
    """Resize the vocabulary of a model in place; the values of new rows are arbitrary."""
    accepted = inspect.signature(model.resize_token_embeddings).parameters
    # Mean resizing would compute the covariance of all rows only to draw values that are overwritten later.
    options = {"mean_resizing": False} if "mean_resizing" in accepted else {}
    model.resize_token_embeddings(rows, **options)


def count_rows(model: PreTrainedModel) -> int:
    """Return the number of rows of the input embedding.

    Raises:
        GraftError: The model has no input embedding.
    """
    embedding = model.get_input_embeddings()
    if embedding is None or getattr(embedding, "weight", None) is None:
        raise GraftError(f"{type(model).__name__} has no input embedding to replace")
    return int(embedding.weight.shape[0])


def weight_rows(module: nn.Module, which: slice | np.ndarray = slice(None)) -> np.ndarray:
    """Return the weight of an embedding or a head, or some rows of it, as float32 [rows × width]."""
    weight: torch.Tensor = module.weight  # type: ignore[assignment]
    rows: np.ndarray = weight.detach()[which].float().cpu().numpy()
    return rows


def embedding_names(folder: Path) -> set[str]:
    """Return the possible names of the input embedding in the files of a folder, including the name of a tied head."""
    model = meta_model(folder)
    weight = model.get_input_embeddings().weight
    return {name for name, tensor in model.named_parameters(remove_duplicate=False) if tensor is weight}


def _check_axes(
    model: PreTrainedModel, shapes: Mapping[str, tuple[int, ...]], axes: Mapping[str, int], rows: int
) -> None:
    """Reject a model whose `resize_token_embeddings` misses a lexical parameter, or resizes a wrong one."""
    for name, shape in shapes.items():
        is_resized_wrongly = name in axes and shape[axes[name]] != rows
        is_missed = name not in axes and bool(shape) and shape[0] == rows
        if is_resized_wrongly or is_missed:
            raise GraftError(
                f"{type(model).__name__} does not resize {name} {list(shape)} together with its {rows} tokens, "
                "so its vocabulary cannot be replaced: give a model of another class"
            )


def _shapes(model: PreTrainedModel) -> dict[str, tuple[int, ...]]:
    """Return the shape of every parameter and buffer by name, including all names of tied tensors."""
    tensors: dict[str, torch.Tensor] = dict(model.named_parameters(remove_duplicate=False))
    tensors.update(model.named_buffers(remove_duplicate=False))
    return {name: tuple(tensor.shape) for name, tensor in tensors.items()}
