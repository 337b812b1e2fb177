"""Train rows of target tokens to give the same hidden states as the source segmentation.

    min Σ_i ‖ h_i(target tokens; rows) − h_i(source tokens) ‖²

The sum is over the positions i of a text at which a token ends in both segmentations. h are the last hidden states of
the model; its inner parameters are not changed. Rows are initialised with the mean of their source pieces (FVT). The
rows of tokens that are also in the source vocabulary are copied and not trained.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from itertools import chain, islice, repeat, zip_longest
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch.func import functional_call
from torch.nn.functional import mse_loss

from relexify.errors import EvidenceError, InputError
from relexify.grafting import graft
from relexify.methods.fvt import pieces
from relexify.methods.parts.copying import shared, special
from relexify.methods.registry import Initialisation
from relexify.mixture import Mixture, Origin, PrecomputedRows, first_of
from relexify.pretrained.architecture import inner_encoder, tokenizer_frame, usable_length
from relexify.progress import track
from relexify.systems.distillation.options import Distillation
from relexify.text import make_encodable
from relexify.tokens import copy_backend

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

    from relexify.methods.inputs import Inputs

__all__ = ["LinePair", "distilled", "pair_lines"]

BYTES_PER_TOKEN = 8
"""Bytes of text to sample per target token: more than a token has, because short lines do not fill a sequence."""
LINES_TOGETHER = 4
"""Number of lines that are computed together on a CPU. In batches of 16 lines of Swahili, 56 % of the positions are
padding; in groups of four lines of similar length, 19 %."""

logger = logging.getLogger(__name__)


class LinePair(NamedTuple):
    """A line encoded with both tokenizers, including special tokens.

    Attributes:
        source: Source ids.
        target: Target ids.
        matches: Pairs of positions (source, target) at which a token ends at the same character.
    """

    source: list[int]
    target: list[int]
    matches: list[tuple[int, int]]


def distilled(inputs: Inputs, options: Distillation) -> Initialisation:
    """Return copied rows, and means of source pieces; the means of tokens that occur in the text are trained.

    Raises:
        InputError: The inputs have no model to run.
        EvidenceError: No line of the text contains a token to train.
    """
    if inputs.read_model is None:
        raise InputError("token distillation needs to run the source model: transfer a model, not an embedding")
    model = inputs.read_model()
    mixture = first_of(
        special(inputs.source, inputs.target, overrides=inputs.overrides),
        shared(inputs.source, inputs.target),
        pieces(inputs.source, inputs.target),
        method="token-distillation",
    )
    trained = mixture.origin == Origin.PIECES
    tokens = options.distillation_steps * options.distillation_batch * options.distillation_length
    text = inputs.evidence.corpus.sample_bytes(BYTES_PER_TOKEN * tokens)
    usable = usable_length(model)
    length = min(options.distillation_length, usable or options.distillation_length)
    pairs = [
        pair
        for pair in pair_lines(text.split("\n"), inputs.source, inputs.target, length=length, source_length=usable)
        if trained[pair.target].any()
    ]
    if not pairs:
        raise EvidenceError("no line of the text has a token that the source vocabulary lacks: give more text")
    order = np.random.default_rng(inputs.seed)
    epochs = chain.from_iterable(order.permutation(len(pairs)) for _ in repeat(None))
    used = [pairs[index] for index in islice(epochs, options.distillation_steps * options.distillation_batch)]
    rows = _train(model, inputs, mixture, trained, iter(used), options)
    seen = np.zeros(len(mixture), bool)
    for pair in used:
        seen[pair.target] = True
    ids = np.flatnonzero(seen & trained)
    return Initialisation(mixture, precomputed=PrecomputedRows(ids, rows[ids]))


def pair_lines(
    lines: list[str],
    source: PreTrainedTokenizerFast,
    target: PreTrainedTokenizerFast,
    *,
    length: int,
    source_length: int | None = None,
) -> Iterator[LinePair]:
    """Yield lines encoded with both tokenizers, truncated after the last position at which a token ends in both.

    Lines with fewer than two such positions are skipped.

    Args:
        lines: The text.
        source: The source tokenizer.
        target: The target tokenizer.
        length: Maximum number of target tokens of a line, including special tokens.
        source_length: Maximum number of source tokens of a line, including special tokens; None for no limit.
    """
    encoders = [copy_backend(source), copy_backend(target)]
    frames = [tokenizer_frame(encoder) for encoder in encoders]
    limits = [
        limit - len(before) - len(after)
        for limit, (before, after) in zip((source_length or length * 64, length), frames, strict=True)
    ]
    texts = [make_encodable(line) for line in lines if line.strip()]
    encoded = [encoder.encode_batch(texts, add_special_tokens=False) for encoder in encoders]
    for both in zip(*encoded, strict=True):
        ends = [_token_ends(encoding.offsets) for encoding in both]
        common = sorted(ends[0].keys() & ends[1].keys())
        matches = [(ends[0][end], ends[1][end]) for end in common]
        matches = [match for match in matches if match[0] < limits[0] and match[1] < limits[1]]
        if len(matches) < 2:
            continue
        (source_before, source_after), (target_before, target_after) = frames
        last_source, last_target = matches[-1]
        yield LinePair(
            [*source_before, *both[0].ids[: last_source + 1], *source_after],
            [*target_before, *both[1].ids[: last_target + 1], *target_after],
            [(one + len(source_before), other + len(target_before)) for one, other in matches],
        )


def _token_ends(offsets: Sequence[tuple[int, int]]) -> dict[int, int]:
    """Return the index of the token that ends at each position.

    If a character is split over several tokens, all of them report its end, but only the last token completes it. This
    token may continue with further characters; then no token ends at this character.
    """
    following = [start for start, _ in offsets[1:]]
    return {
        end: index
        for index, ((_, end), start) in enumerate(zip_longest(offsets, following))
        if start is None or start >= end
    }


def _train(
    model: PreTrainedModel,
    inputs: Inputs,
    mixture: Mixture,
    trained: np.ndarray,
    pairs: Iterator[LinePair],
    options: Distillation,
) -> np.ndarray:
    """Return the rows of all target tokens [target × d] after training."""
    device = torch.device(inputs.device)
    student = graft(model, inputs.target, mixture, seed=inputs.seed, copy_inner=False).model.to(device).eval()
    teacher = inner_encoder(model.to(device).eval())
    encoder, table = inner_encoder(student), student.get_input_embeddings().weight
    name = next(name for name, parameter in encoder.named_parameters() if parameter is table)
    # Detached parameters need no gradients, so layers need not keep their inputs. Detaching copies nothing.
    inner = {each: parameter.detach() for each, parameter in encoder.named_parameters()}
    rows = table.detach().float().clone().requires_grad_()  # in float32; `_hidden` uses them for the student
    fixed = torch.from_numpy(~trained).to(device)
    steps = options.distillation_steps
    # The rate is relative to the size of the rows: Adam's steps have the length of the rate, but some models have rows
    # ten times as long as others.
    optimiser = torch.optim.Adam([rows], lr=options.distillation_rate * float(rows.detach().std()))
    schedule = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.0, total_iters=steps)
    losses = []
    with track("distilling tokens", steps) as advance:
        for _ in range(steps):
            batch = list(islice(pairs, options.distillation_batch))
            matches = sum(len(pair.matches) for pair in batch)
            rows.grad, loss = torch.zeros_like(rows), 0.0
            for group in _groups(batch, device):
                with torch.no_grad():
                    expected = _hidden(teacher, [pair.source for pair in group], {})
                states = _hidden(encoder, [pair.target for pair in group], {**inner, name: rows.to(table.dtype)})
                # The states at all matches, [matches × d] each.
                lines = [line for line, pair in enumerate(group) for _ in pair.matches]
                expected = expected[lines, [position for pair in group for position, _ in pair.matches]]
                states = states[lines, [position for pair in group for _, position in pair.matches]]
                # The contribution of this group to the mean over all states of the batch.
                share = mse_loss(states.float(), expected.float()) * (len(states) / matches)
                (gradient,) = torch.autograd.grad(share, [rows])
                rows.grad += gradient
                loss += float(share.detach())
            rows.grad[fixed] = 0
            optimiser.step()
            schedule.step()
            losses.append(loss)
            advance(1)
    part = max(1, steps // 10)
    logger.info(
        "distillation: mean squared difference of hidden states %.4g in the first %d steps, %.4g in the last",
        np.mean(losses[:part]),
        part,
        np.mean(losses[-part:]),
    )
    result: np.ndarray = rows.detach().cpu().numpy()
    return result


def _groups(batch: list[LinePair], device: torch.device) -> list[list[LinePair]]:
    """Return the lines that are computed together: on a CPU, a few of similar length, so that there is less padding."""
    if device.type != "cpu":  # a GPU takes the same time for a few lines as for all of them
        return [batch]
    by_length = sorted(batch, key=lambda pair: len(pair.source))
    return [by_length[start : start + LINES_TOGETHER] for start in range(0, len(by_length), LINES_TOGETHER)]


def _hidden(encoder: torch.nn.Module, sequences: list[list[int]], replaced: dict[str, torch.Tensor]) -> torch.Tensor:
    """Return the last hidden states of sequences [lines × longest × d], with some parameters of the model replaced."""
    longest, device = max(map(len, sequences)), next(encoder.parameters()).device
    # Padding is masked, so its id does not matter.
    ids = torch.tensor([[*ids, *repeat(ids[-1], longest - len(ids))] for ids in sequences], device=device)
    mask = torch.tensor([[1] * len(ids) + [0] * (longest - len(ids)) for ids in sequences], device=device)
    output = functional_call(encoder, replaced, kwargs={"input_ids": ids, "attention_mask": mask})
    states: torch.Tensor = output.last_hidden_state
    return states
