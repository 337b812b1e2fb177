"""Batches of text in a fixed order that depends on the seed alone.

Every sequence of a run has a position, from the first of the first step to the last of the last step. Its text and its
masks follow from the position, so a run that was resumed, or is distributed over more devices, sees the same batches.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import PreTrainedTokenizerBase

from relexify.errors import InputError, VocabularyError
from relexify.pretrained.architecture import IGNORED, Architecture, encoder_frame
from relexify.pretrained.text_start import begin_windows, extra_length, text_start
from relexify.training.data.packing import PackedText

__all__ = ["Batches", "Blocks", "Masks", "MixedTexts", "Sequences", "TwoTexts"]

Batch = dict[str, torch.Tensor]


class Batches(Protocol):
    """A source of training sequences, by position."""

    @property
    def label_share(self) -> float:
        """Expected share of positions with a label; less than 1 in masked language modelling."""

    @property
    def objectives(self) -> int:
        """Number of objectives that rows alternate between; the means of their losses are added."""

    def batch(self, positions: list[int]) -> Batch:
        """Return inputs and labels of the sequences at some positions."""


class Blocks:
    """A packed text as blocks, shuffled in every epoch.

    Args:
        packed: The text.
        tokenizer: Its tokenizer.
        kind: Kind of the model: a decoder predicts the next token everywhere, an encoder masked tokens.
        length: Tokens per sequence, special ones included.
        masking: Share of the tokens that an encoder has to predict.
        seed: Seed of the order and of the masks.

    Raises:
        InputError: The text is shorter than one sequence.
        VocabularyError: A masked language model's tokenizer has no mask token.
    """

    objectives = 1

    def __init__(
        self,
        packed: PackedText,
        tokenizer: PreTrainedTokenizerBase,
        kind: Architecture,
        *,
        length: int,
        masking: float = 0.15,
        seed: int = 0,
    ) -> None:
        self.frame = encoder_frame(tokenizer) if kind == "encoder" else ([], [])
        self.start = text_start(tokenizer) if kind != "encoder" else []
        self.body = length - len(self.frame[0]) - len(self.frame[1]) - extra_length(self.start)
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
        """Share of positions with a label."""
        return 1.0 if self.masks is None else self.masks.share

    def batch(self, positions: list[int]) -> Batch:
        """Return inputs and labels of the sequences at some positions [sequences × length]."""
        width = self.body + (self.masks is None)  # a decoder needs the next token as the last label
        by_epoch = (divmod(position, self.count) for position in positions)
        starts = np.array([int(self._order(epoch)[index]) * self.body for epoch, index in by_epoch])
        rows = self.packed.tokens[starts[:, None] + np.arange(width)].astype(np.int64)  # [sequences × width]
        if self.masks is None:
            inputs, labels = begin_windows(self.start, rows[:, :-1], rows[:, 1:])
            return {
                "input_ids": torch.from_numpy(inputs).contiguous(),
                "labels": torch.from_numpy(labels).contiguous(),
            }
        before, after = (np.tile(np.array(ids, dtype=np.int64), (len(rows), 1)) for ids in self.frame)
        return self.masks(torch.from_numpy(np.concatenate([before, rows, after], axis=1)), positions)

    @lru_cache(maxsize=2)  # noqa: B019 (lives as long as the Blocks, which live as long as the run)
    def _order(self, epoch: int) -> np.ndarray:
        return np.random.default_rng((self.seed, epoch)).permutation(self.count)


@dataclass(frozen=True)
class TwoTexts:
    """Two languages in turn: even positions are of the first, odd positions of the second.

    Half of any even number of consecutive positions is of each language, so that a step sees the same sequences on any
    number of devices.

    Attributes:
        first: Text of the first language.
        second: Text of the second language.
    """

    first: Batches
    second: Batches
    objectives = 1  # tokens of both count equally

    @property
    def label_share(self) -> float:
        """The larger one of the two shares of positions with a label."""
        return max(self.first.label_share, self.second.label_share)

    def batch(self, positions: list[int]) -> Batch:
        """Return inputs and labels: the rows of the first text, then those of the second."""
        ours, others = self.divide(positions)
        sides = [text.batch(side) for text, side in ((self.first, ours), (self.second, others)) if side]
        return {name: torch.cat([rows[name] for rows in sides]) for name in sides[0]}

    def divide(self, positions: list[int]) -> tuple[list[int], list[int]]:
        """Return the positions in the first text, and those in the second, of rows at some positions of both."""
        even, odd = ([position // 2 for position in positions if position % 2 == side] for side in (0, 1))
        return even, odd


@dataclass(frozen=True)
class MixedTexts(TwoTexts):
    """Two texts of one model in a fixed proportion, spread evenly over the positions.

    Attributes:
        first: Text that a share of the positions have.
        second: Text of all other positions.
        share: That share, from 0 to 1.
    """

    share: float

    def divide(self, positions: list[int]) -> tuple[list[int], list[int]]:
        """Return the positions in the first text, and those in the second, of rows at some positions of both."""
        ours: list[int] = []
        others: list[int] = []
        for position in positions:
            before = math.floor(position * self.share)  # positions of the first text up to this one
            if math.floor((position + 1) * self.share) > before:
                ours.append(before)
            else:
                others.append(position - before)
        return ours, others


class Sequences(Dataset[Any]):
    """The sequences of one stage, for a DataLoader that takes them in order and gets whole batches.

    Args:
        batches: The text.
        first: Position of the first sequence of the stage in the run.
        count: Number of sequences of the stage.
    """

    def __init__(self, batches: Batches, first: int, count: int) -> None:
        self.batches, self.first, self.count = batches, first, count

    def __len__(self) -> int:
        return self.count

    def __getitems__(self, indices: list[int]) -> Batch:
        """Return a whole batch at once."""
        return self.batches.batch([self.first + index for index in indices])

    def __getitem__(self, index: int) -> Batch:
        return {name: rows[0] for name, rows in self.__getitems__([index]).items()}


class Masks:
    """Dynamic masking: in every epoch, other tokens of a block are masked.

    Of the tokens to predict, 80 % are masked, 10 % replaced and 10 % kept, as in BERT. Unknown tokens are predicted
    too, as in BERT and in scores: a model that never predicts them takes them for impossible. The collator of
    transformers draws for a whole batch at once; here the random numbers of a sequence follow from its position, so
    that masks do not depend on the number of devices.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, share: float, seed: int) -> None:
        if tokenizer.mask_token_id is None:
            raise VocabularyError("the tokenizer has no mask token: a masked language model needs one")
        self.mask, self.tokens = tokenizer.mask_token_id, len(tokenizer)
        self.special = torch.tensor(sorted(_unpredicted(tokenizer)))
        self.share, self.seed = share, seed

    def __call__(self, rows: torch.Tensor, positions: list[int]) -> Batch:
        """Return masked inputs and labels of rows [sequences × length] at some positions."""
        draws = torch.from_numpy(np.stack([self._draws(position, rows.shape[1]) for position in positions], axis=1))
        is_label = (draws[0] < self.share) & ~torch.isin(rows, self.special)
        # The first decimal of a number chooses what is done, the others a random token.
        random_tokens = ((draws[1] * 10) % 1 * self.tokens).long()
        inputs = torch.where(is_label & (draws[1] >= 0.9), random_tokens, rows)
        inputs = inputs.masked_fill(is_label & (draws[1] < 0.8), self.mask)
        return {"input_ids": inputs, "labels": rows.masked_fill(~is_label, IGNORED)}

    def _draws(self, position: int, length: int) -> np.ndarray:
        """Return two random numbers in [0, 1) for every token [2 × length]."""
        bits = np.random.Philox(key=np.array([self.seed, position], dtype=np.uint64))
        return np.random.Generator(bits).random((2, length))


def _unpredicted(tokenizer: PreTrainedTokenizerBase) -> set[int]:
    """Return the ids of the special tokens, but not that of the unknown token, unless it has another role as well."""
    roles = ("bos", "eos", "sep", "pad", "cls", "mask")
    others = {getattr(tokenizer, f"{role}_token_id", None) for role in roles}
    return set(tokenizer.all_special_ids) - ({tokenizer.unk_token_id} - others)
