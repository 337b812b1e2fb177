"""A model that, when called, gives the loss and nothing else.

Inside the context its forward takes inputs and labels (already in their places: nothing is shifted) and returns the
summed negative log likelihood. The head waits until the loss is computed, chunk by chunk, so that no logits are ever
whole in memory; blocks are compiled one for all, which is as fast as compiling the model and ten times sooner done.
Since the loss is made inside the forward, wrappers for several devices see an ordinary model.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from relexify.scoring import IGNORED
from relexify.systems.bilingual.model import BilingualModel
from relexify.systems.compression.head import FactoredHead
from relexify.systems.compression.loss import chunk_loss, chunk_places, head_weight
from relexify.systems.trelm.model.heads import TriLayerForMaskedLM
from relexify.training.loss.chunked import asked_places, head_nats
from relexify.training.loss.unpadded import unpadded

__all__ = ["loss_forward", "repeated_blocks"]

_ON_INSTANCES = ("forward", "_original_forward", "zero_grad")

logger = logging.getLogger(__name__)


@contextmanager
def loss_forward(
    model: Any,
    *,
    compiled: bool = False,
    stream: torch.dtype | None = None,
    asked: float = 1.0,
    objectives: int = 1,
) -> Iterator[None]:
    """Let a language model return the summed nats of its labels; of several objectives, in training, those of each.

    Whatever else a batch has goes to the model as it is. Labels of next sentences count as BERT counts them: the mean
    over the rows is added to the mean over the tokens.

    Where a TRILayer model has a vocabulary for each language, every label goes to the head of its own.

    A bilingual model takes `language` beside inputs and labels. Where it is not given, the first half of the rows is of
    the first language and the other half of the second, so that one call reaches all parameters, as wrappers for
    several devices want it.

    Args:
        model: A decoder or a masked language model, or a bilingual model of two.
        compiled: Compile its blocks and the loss.
        stream: The type that embeddings are handed on in, such as bfloat16; theirs if not given.
        asked: The share of places that have labels; where it is less than 1, the head works at those places alone.
        objectives: Rows take turns between so many in training.
    """
    if isinstance(model, BilingualModel):
        with _both_forward(model, compiled, stream, asked):
            yield
        return
    with _one_forward(model, compiled, stream, asked, objectives, waits=_head_can_wait(model)):
        yield


@contextmanager
def _one_forward(
    model: Any, compiled: bool, stream: torch.dtype | None, asked: float, objectives: int = 1, *, waits: bool
) -> Iterator[None]:
    heads, use_cache = _heads_of(model), getattr(model.config, "use_cache", None)
    own_forward = model.forward
    if not waits:
        logger.info("%s does more than a head after its last layer: its logits are kept whole", type(model).__name__)
    # Compiled, a chunk's logits are never in float32 as a whole, so that it may be larger.
    most = 32_768 if compiled else 4_096
    losses = {id(head): chunk_loss(head, compiled=compiled) for head in heads}
    chunks = {id(head): chunk_places(head, most) for head in heads}  # once: it reads the codes of tables

    def of_head(hidden: torch.Tensor, head: Any, wanted: torch.Tensor) -> torch.Tensor:
        lost, shared = None, len(heads) > 1
        if asked < 1 or shared:
            fixed = compiled or (hidden.device.type == "cuda" and not shared)
            hidden, wanted, lost = asked_places(hidden, wanted, asked, fixed=fixed)
        loss, chunk = losses[id(head)], chunks[id(head)]
        nats = head_nats(hidden, head_weight(head), head.bias, wanted, chunk=chunk, loss=loss)
        return nats if lost is None else nats + lost

    def of_rows(rows: slice, hidden: torch.Tensor, shares: list[tuple[Any, torch.Tensor]]) -> torch.Tensor:
        if not waits:
            flat, wanted = hidden[rows].flatten(0, 1).float(), shares[0][1][rows].flatten()
            return cross_entropy(flat, wanted, ignore_index=IGNORED, reduction="sum")
        parts = [of_head(hidden[rows], head, wanted[rows]) for head, wanted in shares]
        return parts[0] if len(parts) == 1 else torch.stack(parts).sum()

    def forward(
        input_ids: torch.Tensor, labels: torch.Tensor, next_sentence_label: Any = None, **arrays: Any
    ) -> torch.Tensor:
        output = own_forward(input_ids=input_ids, **arrays)
        shares = _shares(model, heads, labels, arrays) if waits else [(None, labels)]
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
def _both_forward(model: Any, compiled: bool, stream: torch.dtype | None, asked: float) -> Iterator[None]:
    members = (model.source, model.target)
    waits = [_head_can_wait(member) for member in members]  # before the blocks that they share are compiled

    def forward(input_ids: torch.Tensor, labels: torch.Tensor, language: str | None = None) -> torch.Tensor:
        if language is not None:
            nats: torch.Tensor = model.for_language(language)(input_ids=input_ids, labels=labels)
            return nats
        halves = zip(members, input_ids.chunk(2), labels.chunk(2), strict=True)
        first, second = (member(input_ids=inputs, labels=wanted) for member, inputs, wanted in halves)
        both: torch.Tensor = first + second
        return both

    with ExitStack() as stack:
        for member, can_wait in zip(members, waits, strict=True):
            stack.enter_context(_one_forward(member, compiled, stream, asked, waits=can_wait))
        try:
            model.forward = forward
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
    if not isinstance(head, nn.Linear | FactoredHead):
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


def _heads_of(model: Any) -> list[Any]:
    """The layers that logits come out of: one, or one for each vocabulary of a TRILayer model, the last one first."""
    other = model.head.source_decoder if isinstance(model, TriLayerForMaskedLM) else None
    return [model.get_output_embeddings(), *([] if other is None else [other])]


def _shares(
    model: Any, heads: list[Any], labels: torch.Tensor, arrays: dict[str, Any]
) -> list[tuple[Any, torch.Tensor]]:
    """Every head that has work, with the labels of its own vocabulary."""
    if len(heads) == 1:
        return [(heads[0], labels)]
    of_source = model.of_source(labels.shape, **arrays)
    if isinstance(of_source, bool):
        return [(heads[of_source], labels)]
    return [
        (head, labels.masked_fill(others, IGNORED)) for head, others in zip(heads, (of_source, ~of_source), strict=True)
    ]


def _restore(model: Any, heads: list[Any], blocks: list[nn.Module]) -> None:
    """Take everything away that was put on the instances; what the classes have comes back."""
    for name in _ON_INSTANCES:
        vars(model).pop(name, None)
    for head in heads:
        vars(head).pop("forward", None)
    for block in blocks:
        vars(block).pop("_compiled_call_impl", None)
