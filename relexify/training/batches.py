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
from transformers import DataCollatorForLanguageModeling

from relexify.errors import InputError, VocabularyError
from relexify.scoring import Kind, frame_of
from relexify.training.packing import PackedText

__all__ = ["Batches", "Blocks", "Sequences", "TwoTexts"]

Batch = dict[str, torch.Tensor]


class Batches(Protocol):
    """What gives the sequences at some positions."""

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
        self, packed: PackedText, tokenizer: Any, kind: Kind, *, length: int, masking: float = 0.15, seed: int = 0
    ) -> None:
        self.frame = frame_of(tokenizer) if kind == "encoder" else ([], [])
        self.body = length - len(self.frame[0]) - len(self.frame[1])
        self.count = packed.blocks(self.body)
        self.packed, self.seed = packed, seed
        if self.count < 1:
            raise InputError(
                f"the text has {len(packed)} tokens, but one sequence of {length} needs {self.body + 1}: "
                "give more text, or shorter sequences (length)"
            )
        self.masks = _Masks(tokenizer, masking, seed) if kind == "encoder" else None

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

    first: Blocks
    second: Blocks

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


class _Masks:
    """Dynamic masking: other tokens of a block are masked whenever it comes again."""

    def __init__(self, tokenizer: Any, share: float, seed: int) -> None:
        if tokenizer.mask_token_id is None:
            raise VocabularyError("the tokenizer has no mask token: a masked language model needs one")
        self.collator = DataCollatorForLanguageModeling(tokenizer, mlm_probability=share)
        self.special = torch.tensor(sorted(set(tokenizer.all_special_ids)))
        self.seed = seed

    def __call__(self, rows: torch.Tensor, positions: list[int]) -> Batch:
        masked = [self._mask(row[None], position) for row, position in zip(rows, positions, strict=True)]
        inputs, labels = zip(*masked, strict=True)
        return {"input_ids": torch.cat(inputs), "labels": torch.cat(labels)}

    def _mask(self, row: torch.Tensor, position: int) -> tuple[torch.Tensor, torch.Tensor]:
        state = np.random.SeedSequence((self.seed, position)).generate_state(1, np.uint64)
        self.collator.generator = torch.Generator().manual_seed(int(state[0] >> np.uint64(1)))
        masked: tuple[torch.Tensor, torch.Tensor] = self.collator.torch_mask_tokens(
            row.clone(), torch.isin(row, self.special)
        )
        return masked
