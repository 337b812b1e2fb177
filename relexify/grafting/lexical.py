"""Which parameters of a model belong to its vocabulary, and their new values."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from relexify.errors import GraftError
from relexify.mixture import Fallback, Mixture
from relexify.pretrained.kinds import kind_of_config

__all__ = ["Spread", "lexical_axes", "mixed_tensor", "resize", "shapes"]


def lexical_axes(model: Any) -> dict[str, int]:
    """The parameters and buffers with one entry a token, and the axis of the tokens.

    The model's own `resize_token_embeddings` is the witness: whatever it resizes in an empty twin of the model (input
    embedding, untied head, output bias, `final_logits_bias`, …) is lexical, and nothing else is.

    Raises:
        GraftError: The model cannot resize its vocabulary, or its embedding is compressed.
    """
    kind = kind_of_config(model.config)
    if kind is not None and kind.fixed_vocabulary is not None:
        raise GraftError(f"{type(model).__name__} cannot change its vocabulary: {kind.fixed_vocabulary}")
    rows = embedding_rows(model)
    try:
        with torch.device("meta"):
            twin = type(model)(copy.deepcopy(model.config))
        before = shapes(twin)
        resize(twin, rows + 8)
    except (NotImplementedError, AttributeError, TypeError, RuntimeError) as error:
        raise GraftError(f"{type(model).__name__} cannot change its vocabulary: {error}") from error
    after = shapes(twin)
    axes = {
        name: next(axis for axis, (old, new) in enumerate(zip(shape, after[name], strict=True)) if old != new)
        for name, shape in before.items()
        if after[name] != shape
    }
    _check_axes(model, axes, rows)
    return axes


def resize(model: Any, rows: int) -> None:
    """Resize the vocabulary in place, with whatever values."""
    takes = inspect.signature(model.resize_token_embeddings).parameters
    model.resize_token_embeddings(rows, **({"mean_resizing": False} if "mean_resizing" in takes else {}))


def _check_axes(model: Any, axes: Mapping[str, int], rows: int) -> None:
    """Refuse a model whose own resizing forgets a lexical parameter, or touches another one."""
    for name, shape in shapes(model).items():
        wrong = shape[axes[name]] != rows if name in axes else bool(shape) and shape[0] == rows
        if wrong:
            raise GraftError(
                f"{type(model).__name__} does not resize {name} {list(shape)} together with its {rows} tokens, "
                "so it cannot be given a new vocabulary"
            )


def embedding_rows(model: Any) -> int:
    """Rows of the input embedding.

    Raises:
        GraftError: The model has none.
    """
    embedding = model.get_input_embeddings()
    if embedding is None or getattr(embedding, "weight", None) is None:
        raise GraftError(f"{type(model).__name__} has no input embedding to replace")
    return int(embedding.weight.shape[0])


def shapes(model: Any) -> dict[str, tuple[int, ...]]:
    """Shape of every parameter and buffer by name, tied ones included."""
    tensors: Mapping[str, torch.Tensor] = {
        **dict(model.named_parameters(remove_duplicate=False)),
        **dict(model.named_buffers(remove_duplicate=False)),
    }
    return {name: tuple(tensor.shape) for name, tensor in tensors.items()}


@dataclass(frozen=True)
class Spread:
    """How widely a model's rows are drawn where the old ones do not say.

    Attributes:
        width: d of the model's input embedding.
        fresh: The deviation that its authors initialise embeddings with.
    """

    width: int
    fresh: float

    @classmethod
    def of(cls, model: Any) -> Spread:
        """Read off the model and its config."""
        names = ("initializer_range", "init_std")
        found = (getattr(model.config, name, None) for name in names)
        return cls(int(model.get_input_embeddings().weight.shape[1]), next((value for value in found if value), 0.02))


def mixed_tensor(
    mixture: Mixture, old: torch.Tensor, axis: int, rows: int, seed: int, *, spread: Spread
) -> torch.Tensor:
    """The new values of a lexical tensor, the tokens along `axis`, in the dtype and on the device of the old.

    Rows of which nothing is known, and rows that pad the matrix, come from the mixture's fallback. This is the one
    place where random embeddings are drawn.

    Args:
        mixture: Says how rows are mixed.
        old: The tensor of the source model.
        axis: The axis of the tokens.
        rows: Tokens of the new tensor, padding included.
        seed: Of the rows that are drawn.
        spread: Of rows that owe nothing to the old ones.
    """
    wide = torch.float64 if old.dtype == torch.float64 else torch.float32
    values = old.detach().movedim(axis, 0).to("cpu", wide)
    table = values.reshape(values.shape[0], -1).numpy()
    used = table[: len(mixture.source_tokens)]
    mixed = np.zeros((rows, table.shape[1]), dtype=table.dtype)
    mixed[: len(mixture)] = mixture.apply(table)
    unknown = np.ones(rows, dtype=bool)
    unknown[: len(mixture)] = ~mixture.known
    noise = np.random.default_rng(seed).standard_normal((int(unknown.sum()), table.shape[1]))
    if mixture.fallback is Fallback.NARROW:
        mixed[unknown] = noise / spread.width
    elif mixture.fallback is Fallback.FRESH:
        mixed[unknown] = noise * (spread.fresh if old.dim() > 1 else 0)
    else:
        mixed[unknown] = used.mean(axis=0, dtype=np.float64) + used.std(axis=0, dtype=np.float64) * noise
    shaped = torch.from_numpy(mixed).reshape(rows, *values.shape[1:]).movedim(0, axis)
    return shaped.to(old.device, old.dtype).contiguous()
