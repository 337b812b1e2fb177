"""The protocol by which a model or an output head describes itself to the training engine.

The engine trains every decoder and every masked language model of transformers as it is, and imports no system. A
model that differs from the ordinary case says so with the methods below:

    lexical_parameter_names   parameters that belong to the vocabulary       default: found by `lexical_axes`
    loss_members, joint_loss  several models that are trained as one         default: the model itself
    loss_heads, labels_by_head  several output heads                         default: `get_output_embeddings()`
    row_loss                  labels of whole rows, besides the tokens       default: none
    chunk_loss, …             a head that is not a matrix [V × d]            default: `nn.Linear`

The methods are found by their names, so that a system need not import this module. Those that have them:

    LexicalModel              bilingual models; models with sub-embeddings or a factorised embedding
    JointModel                bilingual models
    MultiHeadModel, RowLabelModel   TreLM's models, whose heads may be of two vocabularies and of next sentences
    ChunkedHead               heads of sub-embeddings, and of a factorised embedding
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import torch
from torch import nn
from transformers import PreTrainedModel
from transformers.utils import ModelOutput

from relexify.pretrained.parameters.lexical import lexical_axes
from relexify.training.loss.chunked import ChunkLoss, dense_chunk_loss

__all__ = [
    "ChunkedHead",
    "JointModel",
    "LexicalModel",
    "MultiHeadModel",
    "RowLabelModel",
    "chunked_head",
    "lexical_parameter_ids",
    "lexical_parameter_names",
]


@runtime_checkable
class LexicalModel(Protocol):
    """A model that knows which of its parameters belong to the vocabulary."""

    def lexical_parameter_names(self) -> set[str]:
        """Return the names of these parameters; names of buffers may be among them."""


@runtime_checkable
class JointModel(Protocol):
    """Several language models that are trained as one, such as one for each language with a common encoder."""

    def loss_members(self) -> Sequence[PreTrainedModel]:
        """Return the models."""

    def joint_loss(self, input_ids: torch.Tensor, labels: torch.Tensor, **batch: Any) -> torch.Tensor:
        """Return the summed negative log likelihood of the labels.

        Called while every member, called with `input_ids` and `labels`, returns its own summed negative log
        likelihood.

        Args:
            input_ids: Tokens [rows × positions].
            labels: Tokens to predict, `IGNORED` where there are none [rows × positions].
            **batch: Whatever else the batch has.
        """


@runtime_checkable
class MultiHeadModel(Protocol):
    """A model with several output heads, such as one for each vocabulary."""

    def loss_heads(self) -> Sequence[nn.Module]:
        """Return the heads; the first one is that of `get_output_embeddings()`."""

    def labels_by_head(self, labels: torch.Tensor, **batch: Any) -> Sequence[tuple[nn.Module, torch.Tensor]]:
        """Return the heads that have labels in a batch, with their labels (`IGNORED` where a label is another's).

        Args:
            labels: Tokens to predict [rows × positions].
            **batch: Whatever else the batch has.
        """


@runtime_checkable
class RowLabelModel(Protocol):
    """A model that also predicts something about whole rows, such as whether two segments follow one another."""

    def row_loss(self, output: ModelOutput, **batch: Any) -> torch.Tensor | None:
        """Return the mean loss over the rows, which is added to the mean over the tokens; None without such labels.

        Args:
            output: What the model returned for the batch.
            **batch: Everything in the batch but the tokens and their labels.
        """


@runtime_checkable
class ChunkedHead(Protocol):
    """An output head that computes its loss itself, for some positions at a time."""

    def loss_weight(self) -> torch.Tensor:
        """Return all trained numbers that it scores with, but for the bias, as one tensor."""

    def chunk_positions(self, most: int) -> int:
        """Return the number of positions of a chunk, at most `most`."""

    def chunk_loss(self, *, compiled: bool = False) -> ChunkLoss:
        """Return a function that takes the hidden states of a chunk, `loss_weight`, bias and labels.

        Args:
            compiled: Compile it, for chunks of one size.
        """


class _DenseHead:
    """The default: an `nn.Linear` of any size."""

    def __init__(self, linear: nn.Linear) -> None:
        self.linear = linear

    def loss_weight(self) -> torch.Tensor:
        return self.linear.weight

    def chunk_positions(self, most: int) -> int:
        return most

    def chunk_loss(self, *, compiled: bool = False) -> ChunkLoss:
        return torch.compile(dense_chunk_loss, dynamic=False) if compiled else dense_chunk_loss


def lexical_parameter_names(model: PreTrainedModel) -> set[str]:
    """Return the names of the parameters that belong to the vocabulary.

    Raises:
        GraftError: The model cannot resize its vocabulary.
    """
    return model.lexical_parameter_names() if isinstance(model, LexicalModel) else set(lexical_axes(model))


def lexical_parameter_ids(model: PreTrainedModel) -> set[int]:
    """Return `id()` of the parameters that belong to the vocabulary; a tied one may be listed under any of its names.

    Raises:
        GraftError: The model cannot resize its vocabulary.
    """
    names = lexical_parameter_names(model)
    return {id(parameter) for name, parameter in model.named_parameters(remove_duplicate=False) if name in names}


def chunked_head(head: nn.Module | None) -> ChunkedHead | None:
    """Return how the loss of a head is computed in chunks; None if the engine cannot determine it."""
    if isinstance(head, ChunkedHead):
        return head
    return _DenseHead(head) if isinstance(head, nn.Linear) else None
