"""Next sentences (BERT): two segments of text, of which the second follows the first in half of the cases."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch

from relexify.errors import InputError, VocabularyError
from relexify.scoring import frame_of
from relexify.training.data.batches import Batch, Batches, Masks
from relexify.training.data.packing import PackedText

__all__ = ["FOLLOWS", "InLanguage", "SegmentPairs"]

FOLLOWS, OTHER = 0, 1
"""Labels, as transformers has them."""
_DRAWS = 7


@dataclass(frozen=True)
class InLanguage:
    """The rows of a text, each with its language.

    Attributes:
        text: Without languages.
        language: The place of the language in the model.
    """

    text: Batches
    language: int

    @property
    def asked(self) -> float:
        """The share of places that are asked for."""
        return self.text.asked

    @property
    def objectives(self) -> int:
        """Those of the text."""
        return self.text.objectives

    def batch(self, positions: list[int]) -> Batch:
        """The rows at some positions."""
        rows = self.text.batch(positions)
        return rows | {"languages": torch.full((len(positions),), self.language)}


class SegmentPairs:
    """Blocks of packed text cut in the middle; in half of them the second part is that of another block.

    Args:
        packed: The text.
        tokenizer: Its tokenizer.
        length: Tokens a sequence, special ones included.
        masking: Share of the tokens to ask for.
        seed: Of the order, the other blocks and the masks.

    Raises:
        InputError: The text is shorter than two sequences.
        VocabularyError: The tokenizer has no token to part segments with, or no mask token.
    """

    def __init__(
        self, packed: PackedText, tokenizer: Any, *, length: int, masking: float = 0.15, seed: int = 0
    ) -> None:
        self.before, self.after = frame_of(tokenizer)
        if not self.after:
            raise VocabularyError("the tokenizer has no token to part segments with: next sentences need one")
        self.body = length - len(self.before) - 2 * len(self.after)
        self.half = self.body // 2
        self.count = packed.blocks(self.body) if self.half else 0
        if self.count < 2:
            raise InputError(
                f"the text has {len(packed)} tokens, too few for two sequences of {length}: give more text, or shorter "
                "sequences (length)"
            )
        self.packed, self.seed = packed, seed
        self.masks = Masks(tokenizer, masking, seed)
        self.asked = masking
        self.objectives = 1

    def batch(self, positions: list[int]) -> Batch:
        """The rows at some positions."""
        rows, labels = zip(*(self._row(position) for position in positions), strict=True)
        first = len(self.before) + self.half + len(self.after)
        types = (torch.arange(len(rows[0])) >= first).long().expand(len(rows), -1)
        masked = self.masks(torch.from_numpy(np.stack(rows)), positions)
        return masked | {"token_type_ids": types.contiguous(), "next_sentence_label": torch.tensor(labels)}

    def _row(self, position: int) -> tuple[np.ndarray, int]:
        epoch, place = divmod(position, self.count)
        block = int(self._order(epoch)[place])
        draws = np.random.default_rng((self.seed, _DRAWS, position))
        label = FOLLOWS if draws.random() < 0.5 else OTHER
        other = block if label == FOLLOWS else (block + 1 + int(draws.integers(self.count - 1))) % self.count
        first, second = self._block(block)[: self.half], self._block(other)[self.half :]
        return np.concatenate([self.before, first, self.after, second, self.after]).astype(np.int64), label

    def _block(self, number: int) -> np.ndarray:
        return self.packed.tokens[number * self.body : (number + 1) * self.body]

    @lru_cache(maxsize=2)  # noqa: B019 (as long as its pairs)
    def _order(self, epoch: int) -> np.ndarray:
        return np.random.default_rng((self.seed, epoch)).permutation(self.count)
