"""Which parameters of a model belong to its vocabulary, and how many rows they have."""

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

_KNOWN: WeakKeyDictionary[PreTrainedModel, tuple[dict[str, tuple[int, ...]], dict[str, int]]] = WeakKeyDictionary()
"""Shapes and lexical axes of models that were examined: a training asks for them several times."""


def lexical_axes(model: PreTrainedModel) -> dict[str, int]:
    """Return the names of the parameters and buffers with one entry per token, and their token axis.

    They are found with `resize_token_embeddings`: whatever that resizes in a twin of the model on the
    meta device (input embedding, untied head, output bias, `final_logits_bias`, …) is lexical, and nothing else is.

    Raises:
        GraftError: The model cannot resize its vocabulary.
    """
    kind = kind_of_config(model.config)
    if kind is not None and kind.fixed_vocabulary is not None:
        raise GraftError(f"{type(model).__name__} cannot change its vocabulary: {kind.fixed_vocabulary}")
    rows, shapes = count_rows(model), _shapes(model)
    known_shapes, known_axes = _KNOWN.get(model, ({}, {}))
    if known_shapes == shapes:
        return dict(known_axes)
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
    _KNOWN[model] = shapes, dict(axes)
    return axes


def resize(model: PreTrainedModel, rows: int) -> None:
    """Resize the vocabulary of a model in place; the values of new rows are arbitrary."""
    accepted = inspect.signature(model.resize_token_embeddings).parameters
    # Mean resizing computes a covariance of all rows, only to draw values that are overwritten.
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
    """Return the names that the input embedding of a model folder may have in its files: that of a tied head, too."""
    model = meta_model(folder)
    weight = model.get_input_embeddings().weight
    return {name for name, tensor in model.named_parameters(remove_duplicate=False) if tensor is weight}


def _check_axes(
    model: PreTrainedModel, shapes: Mapping[str, tuple[int, ...]], axes: Mapping[str, int], rows: int
) -> None:
    """Reject a model whose own resizing misses a lexical parameter, or resizes another one."""
    for name, shape in shapes.items():
        wrong = shape[axes[name]] != rows if name in axes else bool(shape) and shape[0] == rows
        if wrong:
            raise GraftError(
                f"{type(model).__name__} does not resize {name} {list(shape)} together with its {rows} tokens, "
                "so it cannot be given a new vocabulary"
            )


def _shapes(model: PreTrainedModel) -> dict[str, tuple[int, ...]]:
    """Return the shape of every parameter and buffer by name, tied ones included."""
    tensors: dict[str, torch.Tensor] = dict(model.named_parameters(remove_duplicate=False))
    tensors.update(model.named_buffers(remove_duplicate=False))
    return {name: tuple(tensor.shape) for name, tensor in tensors.items()}
