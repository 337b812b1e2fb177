"""A model that, when called, gives the loss and nothing else.

Inside the context its forward takes inputs and labels (already in their places: nothing is shifted) and returns the
summed negative log likelihood. The head waits until the loss is computed, chunk by chunk, so that no logits are ever
whole in memory; blocks are compiled one for all, which is as fast as compiling the model and ten times sooner done.
Since the loss is made inside the forward, wrappers for several devices see an ordinary model.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from relexify.pretrained.architecture import IGNORED
from relexify.training.loss.chunked import chunked_loss, labelled_positions
from relexify.training.loss.unpadded import unpadded
from relexify.training.protocol import JointModel, MultiHeadModel, chunked_head

__all__ = ["loss_forward", "repeated_blocks"]

_ON_INSTANCES = ("forward", "_original_forward", "zero_grad")

logger = logging.getLogger(__name__)


@contextmanager
def loss_forward(
    model: Any,
    *,
    compiled: bool = False,
    stream: torch.dtype | None = None,
    label_share: float = 1.0,
    objectives: int = 1,
) -> Iterator[None]:
    """Let a language model return the summed nats of its labels; of several objectives, in training, those of each.

    Whatever else a batch has goes to the model as it is. Labels of next sentences count as BERT counts them: the mean
    over the rows is added to the mean over the tokens.

    Args:
        model: A decoder or a masked language model, or one with methods of `relexify.training.protocol`.
        compiled: Compile its blocks and the loss.
        stream: The type that embeddings are handed on in, such as bfloat16; theirs if not given.
        label_share: Share of the positions that have labels; below 1, the head works at those positions alone.
        objectives: Rows take turns between so many in training.
    """
    if isinstance(model, JointModel):
        with _joint_forward(model, compiled, stream, label_share):
            yield
        return
    with _one_forward(model, compiled, stream, label_share, objectives, waits=_head_can_wait(model)):
        yield


@contextmanager
def _one_forward(
    model: Any, compiled: bool, stream: torch.dtype | None, label_share: float, objectives: int = 1, *, waits: bool
) -> Iterator[None]:
    has_several_heads = isinstance(model, MultiHeadModel)
    heads = list(model.loss_heads()) if has_several_heads else [model.get_output_embeddings()]
    use_cache = getattr(model.config, "use_cache", None)
    own_forward = model.forward
    if not waits:
        logger.info("%s does more than a head after its last layer: its logits are kept whole", type(model).__name__)
    # Compiled, a chunk's logits are never in float32 as a whole, so that it may be larger.
    most = 32_768 if compiled else 4_096
    chunked = {id(head): found for head in heads if waits and (found := chunked_head(head)) is not None}
    losses = {key: head.chunk_loss(compiled=compiled) for key, head in chunked.items()}
    chunks = {key: head.chunk_positions(most) for key, head in chunked.items()}  # once: it may take long

    def of_head(hidden: torch.Tensor, head: Any, wanted: torch.Tensor) -> torch.Tensor:
        lost, shared = None, len(heads) > 1
        if label_share < 1 or shared:
            fixed = compiled or (hidden.device.type == "cuda" and not shared)
            hidden, wanted, lost = labelled_positions(hidden, wanted, label_share, fixed=fixed)
        weight, loss, chunk = chunked[id(head)].loss_weight(), losses[id(head)], chunks[id(head)]
        nats = chunked_loss(hidden, weight, head.bias, wanted, chunk=chunk, loss=loss)
        return nats if lost is None else nats + lost

    def of_rows(rows: slice, hidden: torch.Tensor, shares: Sequence[tuple[Any, torch.Tensor]]) -> torch.Tensor:
        if not waits:
            flat, wanted = hidden[rows].flatten(0, 1).float(), shares[0][1][rows].flatten()
            return cross_entropy(flat, wanted, ignore_index=IGNORED, reduction="sum")
        parts = [of_head(hidden[rows], head, wanted[rows]) for head, wanted in shares]
        return parts[0] if len(parts) == 1 else torch.stack(parts).sum()

    def forward(
        input_ids: torch.Tensor, labels: torch.Tensor, next_sentence_label: Any = None, **arrays: Any
    ) -> torch.Tensor:
        output = own_forward(input_ids=input_ids, **arrays)
        shares = model.labels_by_head(labels, **arrays) if waits and has_several_heads else [(heads[0], labels)]
        turns = objectives if model.training else 1
        nats_of_each = [of_rows(slice(turn, None, turns), output.logits, shares) for turn in range(turns)]
        nats = nats_of_each[0] if turns == 1 else torch.stack(nats_of_each)
        if next_sentence_label is None:
            return nats
        # The sum is divided by the number of labels later on: so many times the mean, for BERT's sum of two means.
        follows = cross_entropy(output.next_sentence_logits.float(), next_sentence_label)
        return nats + (labels != IGNORED).sum() * follows

    blocks = repeated_blocks(model) if compiled else []
    hook = model.get_input_embeddings().register_forward_hook(_handed_on(stream)) if stream else None
    try:
        for block in blocks:
            block.compile(dynamic=False)
        model.forward = forward
        for head in heads if waits else ():
            vars(head)["forward"] = _identity
        if use_cache is not None:
            model.config.use_cache = False
        with unpadded():
            yield
    finally:
        _restore(model, heads, blocks)
        if use_cache is not None:
            model.config.use_cache = use_cache
        if hook is not None:
            hook.remove()


@contextmanager
def _joint_forward(model: Any, compiled: bool, stream: torch.dtype | None, label_share: float) -> Iterator[None]:
    members = model.loss_members()
    waits = [_head_can_wait(member) for member in members]  # before the blocks that they share are compiled

    with ExitStack() as stack:
        for member, can_wait in zip(members, waits, strict=True):
            stack.enter_context(_one_forward(member, compiled, stream, label_share, waits=can_wait))
        try:
            model.forward = model.joint_loss
            yield
        finally:
            for name in _ON_INSTANCES:
                vars(model).pop(name, None)


def repeated_blocks(model: nn.Module) -> list[nn.Module]:
    """The layers of a model: the members of its outermost lists of equal modules."""
    found: list[nn.Module] = []
    inside: set[nn.Module] = set()
    for module in model.modules():
        if module in inside or not isinstance(module, nn.ModuleList) or len(module) < 2:
            continue
        if len({type(member) for member in module}) == 1:
            found.extend(module)
            inside.update(part for member in module for part in member.modules())
    return found


def _head_can_wait(model: Any) -> bool:
    """Whether the logits are what the head makes of what it is given, and nothing more; tried out on a few tokens."""
    head = model.get_output_embeddings()
    if chunked_head(head) is None:
        return False
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            tokens = torch.arange(8, device=model.device)[None] % head.out_features
            whole = model(input_ids=tokens).logits
            vars(head)["forward"] = _identity
            hidden = model(input_ids=tokens).logits
            vars(head).pop("forward")
            waited = head(hidden)
            # Logits that are capped or scaled look untouched as long as they are small.
            steep = torch.linspace(-1e3, 1e3, head.out_features).to(whole).expand(*tokens.shape, -1)
            vars(head)["forward"] = lambda hidden: steep
            untouched = torch.equal(model(input_ids=tokens).logits.to(steep), steep)
    except RuntimeError:  # shapes that do not fit: something is done to the logits
        return False
    finally:
        vars(head).pop("forward", None)
        model.train(was_training)
    same = whole.shape == waited.shape and torch.allclose(whole.float(), waited.float(), rtol=1e-2, atol=1e-3)
    return same and untouched


def _identity(hidden: torch.Tensor) -> torch.Tensor:
    return hidden


def _handed_on(dtype: torch.dtype) -> Callable[[nn.Module, Any, torch.Tensor], torch.Tensor]:
    return lambda module, inputs, output: output.to(dtype)


def _restore(model: Any, heads: list[Any], blocks: list[nn.Module]) -> None:
    """Take everything away that was put on the instances; what the classes have comes back."""
    for name in _ON_INSTANCES:
        vars(model).pop(name, None)
    for head in heads:
        vars(head).pop("forward", None)
    for block in blocks:
        vars(block).pop("_compiled_call_impl", None)
