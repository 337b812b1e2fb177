"""Which block of text comes when: a fixed order that depends on the seed alone.

Every sequence of a run has a position, from the first step's first to the last step's last. Its block and its masks
follow from the position, so a run that was killed, or is spread over more devices, sees what it would have seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
import torch
from torch.utils.data import Dataset

from relexify.errors import InputError, VocabularyError
from relexify.pretrained.architecture import IGNORED, Architecture, encoder_frame
from relexify.training.data.packing import PackedText

__all__ = ["Batches", "Blocks", "Masks", "Sequences", "TwoTexts"]

Batch = dict[str, torch.Tensor]


class Batches(Protocol):
    """What gives the sequences at some positions."""

    @property
    def label_share(self) -> float:
        """The share of places that are asked for: less than 1 where gaps are filled."""

    @property
    def objectives(self) -> int:
        """Rows take turns between so many objectives, and the means of their losses are added."""

    def batch(self, positions: list[int]) -> Batch:
        """Inputs and labels of the sequences at some positions."""


class Blocks:
    """A packed text as blocks, in an order that changes from epoch to epoch.

    Args:
        packed: The text.
        tokenizer: Its tokenizer.
        kind: Of the model: a decoder is asked for the next token everywhere, an encoder for masked ones.
        length: Tokens a sequence, special ones included.
        masking: Share of an encoder's tokens to ask for.
        seed: Of the order and of the masks.

    Raises:
        InputError: The text is shorter than one sequence.
        VocabularyError: A masked language model's tokenizer has no mask token.
    """

    def __init__(
        self,
        packed: PackedText,
        tokenizer: Any,
        kind: Architecture,
        *,
        length: int,
        masking: float = 0.15,
        seed: int = 0,
    ) -> None:
        self.frame = encoder_frame(tokenizer) if kind == "encoder" else ([], [])
        self.body = length - len(self.frame[0]) - len(self.frame[1])
        self.count = packed.blocks(self.body)
        self.packed, self.seed = packed, seed
        if self.count < 1:
            raise InputError(
                f"the text has {len(packed)} tokens, but one sequence of {length} needs {self.body + 1}: "
                "give more text, or shorter sequences (length)"
            )
        self.masks = Masks(tokenizer, masking, seed) if kind == "encoder" else None

    @property
    def label_share(self) -> float:
        """The share of places that are asked for."""
        return 1.0 if self.masks is None else self.masks.share

    @property
    def objectives(self) -> int:
        """One."""
        return 1

    def batch(self, positions: list[int]) -> Batch:
        """Inputs and labels of the sequences at some positions."""
        wide = self.body + (self.masks is None)
        starts = np.array([self._block(position) * self.body for position in positions])
        rows = torch.from_numpy(self.packed.tokens[starts[:, None] + np.arange(wide)].astype(np.int64))
        if self.masks is None:
            return {"input_ids": rows[:, :-1].contiguous(), "labels": rows[:, 1:].contiguous()}
        before, after = (torch.tensor(ids, dtype=torch.int64).expand(len(rows), -1) for ids in self.frame)
        return self.masks(torch.cat([before, rows, after], dim=1), positions)

    def _block(self, position: int) -> int:
        epoch, place = divmod(position, self.count)
        return int(self._order(epoch)[place])

    @lru_cache(maxsize=2)  # noqa: B019 (as long as its Blocks)
    def _order(self, epoch: int) -> np.ndarray:
        return np.random.default_rng((self.seed, epoch)).permutation(self.count)


@dataclass(frozen=True)
class TwoTexts:
    """Blocks of two languages, in turn: even positions are the first one's, odd ones the second one's.

    Whatever even stretch of positions a device takes at once, half of it is of each language; so a step sees the same
    sequences on any number of devices.

    Attributes:
        first: Of one language.
        second: Of the other.
    """

    first: Batches
    second: Batches

    @property
    def label_share(self) -> float:
        """The larger share of places that are asked for."""
        return max(self.first.label_share, self.second.label_share)

    @property
    def objectives(self) -> int:
        """One: tokens of both languages count alike."""
        return 1

    def batch(self, positions: list[int]) -> Batch:
        """Inputs and labels: first the rows of the first language, then as many of the second."""
        sides = [
            text.batch([position // 2 for position in positions if position % 2 == side])
            for side, text in enumerate((self.first, self.second))
        ]
        return {name: torch.cat([rows[name] for rows in sides]) for name in sides[0]}


class Sequences(Dataset[Any]):
    """The sequences of one stage for a DataLoader, which takes them in order and gets ready batches.

    Args:
        blocks: The text.
        first: The position of the stage's first sequence in the run.
        count: How many sequences the stage sees.
    """

    def __init__(self, blocks: Batches, first: int, count: int) -> None:
        self.blocks, self.first, self.count = blocks, first, count

    def __len__(self) -> int:
        return self.count

    def __getitems__(self, places: list[int]) -> Batch:
        """A whole batch at once."""
        return self.blocks.batch([self.first + place for place in places])

    def __getitem__(self, place: int) -> Batch:
        return {name: rows[0] for name, rows in self.__getitems__([place]).items()}


class Masks:
    """Dynamic masking: other tokens of a block are masked whenever it comes again.

    Of the tokens asked for, 80 % are masked, 10 % replaced and 10 % left, as in BERT. transformers' collator draws for
    a whole batch at once; here a sequence's draws follow from its position, or other devices would mean other masks.
    """

    def __init__(self, tokenizer: Any, share: float, seed: int) -> None:
        if tokenizer.mask_token_id is None:
            raise VocabularyError("the tokenizer has no mask token: a masked language model needs one")
        self.mask, self.tokens = tokenizer.mask_token_id, len(tokenizer)
        self.special = torch.tensor(sorted(set(tokenizer.all_special_ids)))
        self.share, self.seed = share, seed

    def __call__(self, rows: torch.Tensor, positions: list[int]) -> Batch:
        """Inputs with gaps and labels for them, of the rows at some positions."""
        draws = torch.from_numpy(np.stack([self._draws(position, rows.shape[1]) for position in positions], axis=1))
        asked = (draws[0] < self.share) & ~torch.isin(rows, self.special)
        others = ((draws[1] * 10) % 1 * self.tokens).long()  # the digits below the one that chooses
        inputs = torch.where(asked & (draws[1] >= 0.9), others, rows).masked_fill(asked & (draws[1] < 0.8), self.mask)
        return {"input_ids": inputs, "labels": rows.masked_fill(~asked, IGNORED)}

    def _draws(self, position: int, length: int) -> np.ndarray:
        """Two numbers in [0, 1) for every place [2 × length]."""
        bits = np.random.Philox(key=np.array([self.seed, position], dtype=np.uint64))
        return np.random.Generator(bits).random((2, length))
