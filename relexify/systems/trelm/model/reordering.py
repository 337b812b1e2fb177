"""Hidden states in another order: the one that an alignment gives (TreLM, section 3.2)."""

from __future__ import annotations

import torch

from relexify.errors import InputError

__all__ = ["UNALIGNED", "check_alignment", "reorder"]

UNALIGNED = -1
"""In an alignment, a place that corresponds to nothing; it takes the state of the placeholder [P]."""


def reorder(states: torch.Tensor, alignment: torch.Tensor) -> torch.Tensor:
    """Give every target position the state of the source position that it is aligned to: H^O of the paper.

    Args:
        states: Of a source sentence with the placeholder after its last position [batch × source + 1 × width].
        alignment: Source positions from 0, `UNALIGNED` for the placeholder [batch × target].

    Returns:
        [batch × target × width].
    """
    places = torch.where(alignment == UNALIGNED, states.shape[1] - 1, alignment)
    return states.gather(1, places[..., None].expand(-1, -1, states.shape[-1]))


def check_alignment(alignment: torch.Tensor, source_mask: torch.Tensor, longest: int) -> None:
    """Refuse an alignment that does not fit its sentences; nothing can be read while a CUDA graph is recorded.

    Args:
        alignment: As in `reorder` [batch × target].
        source_mask: 1 for what is no padding [batch × source].
        longest: Positions that the model has.

    Raises:
        InputError: It has another number of rows, too many positions, or points outside its source sentence.
    """
    if alignment.dim() != 2 or len(alignment) != len(source_mask):
        raise InputError(
            f"an alignment of shape {list(alignment.shape)} does not fit {len(source_mask)} sentences: "
            "give one row of source positions for every sentence"
        )
    if alignment.shape[1] > longest:
        raise InputError(
            f"an alignment has {alignment.shape[1]} target positions, and the model has room for {longest}: "
            "cut the sentences, or leave them out"
        )
    if alignment.is_cuda and torch.cuda.is_current_stream_capturing():
        return
    lengths = source_mask.shape[1] - source_mask.flip(1).to(torch.bool).int().argmax(1)
    outside = (alignment < UNALIGNED) | (alignment >= lengths[:, None])
    if bool(outside.any()):
        row, place = (int(number) for number in outside.nonzero()[0])
        raise InputError(
            f"in sentence {row} of the batch, target position {place} is aligned to source position "
            f"{int(alignment[row, place])}, but the source sentence has {int(lengths[row])} tokens: count from 0, and "
            f"write {UNALIGNED} for what is aligned to nothing"
        )
