"""Make a model return its loss instead of logits.

Inside `loss_forward`, the forward of a model takes inputs and labels (label i belongs to position i: nothing is
shifted) and returns the summed negative log likelihood. The output head is deferred: it is computed together with the
loss, chunk by chunk, so that the logits are never in memory as a whole. If requested, layers are compiled one by one:
the result is as fast as with the whole model compiled, and compilation takes a tenth of the time. Because the loss is
computed inside the forward, wrappers for several devices see an ordinary model.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch
import transformers
from torch import nn
from torch.nn.functional import cross_entropy
from transformers import PreTrainedModel, masking_utils
from transformers.utils import import_utils

from relexify.pretrained.architecture import IGNORED
from relexify.pretrained.runtime.runnable import evaluating
from relexify.progress import ONCE
from relexify.training.loss.chunked import CHUNK, ChunkLoss, chunked_loss, labelled_positions
from relexify.training.protocol import ChunkedHead, JointModel, MultiHeadModel, RowLabelModel, chunked_head

__all__ = ["loss_forward", "repeated_blocks", "whole_sequences"]

COMPILED_CHUNK = 32_768
"""Maximum number of positions of a chunk if the loss is compiled: its logits are then never in memory in float32."""

logger = logging.getLogger(__name__)


@contextmanager
def loss_forward(
    model: PreTrainedModel,
    *,
    compiled: bool = False,
    stream: torch.dtype | None = None,
    label_share: float = 1.0,
    objectives: int = 1,
) -> Iterator[None]:
    """Make a language model return the summed loss of its labels, in nats.

    All other entries of a batch are passed to the model. Labels of whole rows, such as BERT's next-sentence labels,
    count as in BERT: their mean loss over the rows is added to the mean loss over the tokens.

    Args:
        model: A decoder or a masked language model, or a model with methods of `relexify.training.protocol`.
        compiled: Compile its layers and the loss.
        stream: The dtype in which embeddings enter the first layer, such as bfloat16; by default, their own.
        label_share: Share of the positions that have labels; if below 1, the head is computed only at positions with
            labels.
        objectives: Number of objectives that the rows of a training batch alternate between; if more than 1, the
            result has one sum for each [objectives].
    """
    if not isinstance(model, JointModel):
        with _member_loss(
            model,
            compiled=compiled,
            stream=stream,
            label_share=label_share,
            objectives=objectives,
            is_deferred=_head_can_be_deferred(model),
        ):
            yield
        return
    members = model.loss_members()
    deferred = [_head_can_be_deferred(member) for member in members]  # tested before their shared layers are compiled
    with ExitStack() as stack:
        for member, is_deferred in zip(members, deferred, strict=True):
            loss = _member_loss(
                member,
                compiled=compiled,
                stream=stream,
                label_share=label_share,
                objectives=1,
                is_deferred=is_deferred,
            )
            stack.enter_context(loss)
        try:
            vars(model)["forward"] = model.joint_loss
            yield
        finally:
            _restore_forward(model)


def repeated_blocks(model: nn.Module) -> list[nn.Module]:
    """Return the layers of a model: the members of each outermost `ModuleList` whose members have the same class."""
    found: list[nn.Module] = []
    inside: set[nn.Module] = set()
    for module in model.modules():
        if module in inside or not isinstance(module, nn.ModuleList) or len(module) < 2:
            continue
        if len({type(member) for member in module}) == 1:
            found.extend(module)
            inside.update(part for member in module for part in member.modules())
    return found


@contextmanager
def whole_sequences() -> Iterator[None]:
    """Replace two functions of transformers that look for several packed sequences in one row.

    Packed blocks have no padding; padded batches bring their own mask. Without a mask, transformers reads the positions
    to detect rows that contain several sequences, which synchronises with the GPU in every step. While a CUDA graph is
    recorded, positions cannot be read; transformers then creates a causal mask, which rules out fast attention. Packed
    blocks attend across their whole length, so neither is needed here. The functions are replaced only while a model is
    called.
    """
    replaced = _replaced_functions()
    for module, name, _, stand_in in replaced:
        setattr(module, name, stand_in)
    try:
        yield
    finally:
        for module, name, own, _ in replaced:
            setattr(module, name, own)


@contextmanager
def _member_loss(
    model: PreTrainedModel,
    *,
    compiled: bool,
    stream: torch.dtype | None,
    label_share: float,
    objectives: int,
    is_deferred: bool,
) -> Iterator[None]:
    """Make a single model return its summed loss; arguments as for `loss_forward`, and whether its head is deferred."""
    loss = _SummedLoss(
        model, compiled=compiled, label_share=label_share, objectives=objectives, is_deferred=is_deferred
    )

    # A function, because accelerate would bind a bound method of `loss` to the model again.
    def forward(input_ids: torch.Tensor, labels: torch.Tensor, **batch: Any) -> torch.Tensor:
        return loss(input_ids, labels, **batch)

    use_cache = getattr(model.config, "use_cache", None)
    blocks = repeated_blocks(model) if compiled else []
    with _streaming(model, stream):
        try:
            for block in blocks:
                block.compile(dynamic=False)
            vars(model)["forward"] = forward
            for module in loss.heads:
                vars(module)["forward"] = _identity
            if use_cache is not None:
                model.config.use_cache = False
            yield
        finally:
            # Remove the attributes from the instances, which makes the methods of their classes effective again.
            _restore_forward(model)
            for module in loss.heads:
                vars(module).pop("forward", None)
            for block in blocks:
                vars(block).pop("_compiled_call_impl", None)
            if use_cache is not None:
                model.config.use_cache = use_cache


@contextmanager
def _streaming(model: PreTrainedModel, stream: torch.dtype | None) -> Iterator[None]:
    """Make the input embedding of a model return its rows in another dtype, if one is given."""
    if stream is None:
        yield
        return
    hook = model.get_input_embeddings().register_forward_hook(lambda module, inputs, output: output.to(stream))
    try:
        yield
    finally:
        hook.remove()


@dataclass(frozen=True)
class _DeferredHead:
    """An output head that is computed together with the loss."""

    module: Any
    chunked: ChunkedHead
    loss: ChunkLoss
    chunk: int

    def nats(self, hidden: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        weight = self.chunked.loss_weight()
        return chunked_loss(hidden, weight, self.module.bias, labels, chunk=self.chunk, loss=self.loss)


class _SummedLoss:
    """The forward of a model, up to its summed loss.

    Attributes:
        heads: The output heads, by module; empty if the logits are kept whole.
    """

    def __init__(
        self, model: PreTrainedModel, *, compiled: bool, label_share: float, objectives: int, is_deferred: bool
    ) -> None:
        self.model, self.own_forward = model, model.forward
        self.compiled, self.label_share, self.objectives = compiled, label_share, objectives
        self.has_several_heads = isinstance(model, MultiHeadModel)
        self.has_row_labels = isinstance(model, RowLabelModel)
        self.heads: dict[nn.Module, _DeferredHead] = {}
        if not is_deferred:
            logger.info(
                "%s changes the output of its head, so all logits of a batch are kept in memory",
                type(model).__name__,
                extra=ONCE,
            )
            return
        for module in model.loss_heads() if self.has_several_heads else [model.get_output_embeddings()]:
            head = chunked_head(module)
            if head is None:
                raise TypeError(f"an output head is a {type(module).__name__}, which has no chunk_loss")
            # Computed only once, because it may take long.
            chunk = head.chunk_positions(COMPILED_CHUNK if compiled else CHUNK)
            self.heads[module] = _DeferredHead(module, head, head.chunk_loss(compiled=compiled), chunk)

    def __call__(self, input_ids: torch.Tensor, labels: torch.Tensor, **batch: Any) -> torch.Tensor:
        with whole_sequences():
            output = self.own_forward(input_ids=input_ids, **batch)
        parts: list[tuple[nn.Module | None, torch.Tensor]] = [(None, labels)]
        if self.heads and self.has_several_heads:
            parts = list(self.model.labels_by_head(labels, **batch))
        elif self.heads:
            parts = [(next(iter(self.heads)), labels)]
        # In training, rows alternate between the objectives; held-out text has one.
        objectives = self.objectives if self.model.training else 1
        losses = []
        for objective in range(objectives):
            rows = slice(objective, None, objectives)
            losses.append(self._rows_loss(output.logits[rows], [(module, each[rows]) for module, each in parts]))
        nats = losses[0] if objectives == 1 else torch.stack(losses)
        row_loss: torch.Tensor | None = self.model.row_loss(output, **batch) if self.has_row_labels else None
        if row_loss is None:
            return nats
        # The Trainer divides the total by the number of labels. Multiplied by it here, the row loss counts as a mean.
        return nats + (labels != IGNORED).sum() * row_loss

    def _rows_loss(self, hidden: torch.Tensor, parts: list[tuple[nn.Module | None, torch.Tensor]]) -> torch.Tensor:
        """Return the summed loss of some rows; if the head is not deferred, `hidden` are logits."""
        losses = []
        for module, labels in parts:
            if module is None:
                logits, targets = hidden.flatten(0, 1).float(), labels.flatten()
                return cross_entropy(logits, targets, ignore_index=IGNORED, reduction="sum")
            if self.label_share == 1 and len(self.heads) == 1:
                losses.append(self.heads[module].nats(hidden, labels))
                continue
            # With several heads, the number of labels per head varies too much to fix it, unless compilation needs it.
            is_fixed = self.compiled or (hidden.device.type == "cuda" and len(self.heads) == 1)
            found, found_labels, missed = labelled_positions(hidden, labels, self.label_share, fixed=is_fixed)
            losses.append(self.heads[module].nats(found, found_labels) + missed)
        return losses[0] if len(losses) == 1 else torch.stack(losses).sum()


def _restore_forward(model: PreTrainedModel) -> None:
    vars(model).pop("forward", None)
    vars(model).pop("_original_forward", None)  # accelerate also wraps `forward`, and keeps the original here


def _head_can_be_deferred(model: PreTrainedModel) -> bool:
    """Whether the logits are exactly the output of the head; tested with a few tokens.

    Some models scale or cap the output of their head; for these, the head cannot be deferred. Three forward passes
    test this. The first is an ordinary pass. In the second, the head returns its input; the head applied to this input
    must give the logits of the first pass. In the third, the head returns logits from -1,000 to 1,000, which the model
    must not change. This detects a cap of 30, for example: it would change the small logits of the first two passes
    less than the tolerance of the comparison.
    """
    head = model.get_output_embeddings()
    if chunked_head(head) is None:
        return False
    try:
        # Parameters of several dtypes work together only under autocast, as in training.
        is_mixed = len({parameter.dtype for parameter in model.parameters()}) > 1
        with (
            evaluating(model),
            torch.no_grad(),
            _streaming(model, torch.bfloat16 if is_mixed else None),
            torch.autocast(model.device.type, torch.bfloat16, enabled=is_mixed),
        ):
            tokens = torch.arange(8, device=model.device)[None] % head.out_features
            whole = model(input_ids=tokens).logits
            vars(head)["forward"] = _identity
            hidden = model(input_ids=tokens).logits
            vars(head).pop("forward")
            deferred = head(hidden)
            steep = torch.linspace(-1e3, 1e3, head.out_features).to(whole).expand(*tokens.shape, -1)
            vars(head)["forward"] = lambda hidden: steep
            is_untouched = torch.equal(model(input_ids=tokens).logits.to(steep), steep)
    except RuntimeError:  # shapes do not match, so the model changes the output of the head
        return False
    finally:
        vars(head).pop("forward", None)
    is_same = whole.shape == deferred.shape and torch.allclose(whole.float(), deferred.float(), rtol=1e-2, atol=1e-3)
    return is_same and is_untouched


def _identity(hidden: torch.Tensor) -> torch.Tensor:
    return hidden


@functools.cache
def _replaced_functions() -> tuple[tuple[ModuleType, str, Callable[..., Any], Callable[..., Any]], ...]:
    """Return module, name, function and replacement; warn once if transformers no longer has such a function."""
    found = []
    for module, name, stand_in in (
        (masking_utils, "find_packed_sequence_indices", lambda position_ids: None),
        (import_utils, "is_cuda_stream_capturing", lambda: False),
    ):
        own = getattr(module, name, None)
        if own is None:
            logger.warning(
                "transformers %s has no %s.%s, which relexify replaces in training: on a GPU, steps may be slower",
                transformers.__version__,
                module.__name__,
                name,
            )
        else:
            found.append((module, name, own, stand_in))
    return tuple(found)
