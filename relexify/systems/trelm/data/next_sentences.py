"""The rows of a batch of text for next-sentence prediction (BERT), in the last phase of TreLM.

A row depends only on its position and the seed, as in `relexify.training.data.batches`.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
from transformers import PreTrainedTokenizerFast

from relexify.errors import InputError, VocabularyError
from relexify.pretrained.architecture import encoder_frame
from relexify.training.data.batches import Batch, Masks
from relexify.training.data.packing import PackedText

__all__ = ["SegmentPairs"]

FOLLOWS, DOES_NOT_FOLLOW = 0, 1
"""Labels of next sentences, as in transformers and in BERT's pretrained head."""
_DRAWS = 7
"""Part of the seed for next sentences, so that their random numbers are independent of those for the order."""


class SegmentPairs:
    """Rows for next-sentence prediction (BERT): two halves of a block of packed text.

    In half of the rows, the second half is from another block.

    Args:
        packed: The text.
        tokenizer: Its tokenizer.
        length: Number of tokens per sequence, including special tokens.
        masking: Share of the tokens that are masked.
        seed: Random seed of the order, the other blocks and the masks.

    Raises:
        InputError: The text is shorter than two sequences.
        VocabularyError: The tokenizer has no token to separate segments with, or no mask token.
    """

    def __init__(
        self,
        packed: PackedText,
        tokenizer: PreTrainedTokenizerFast,
        *,
        length: int,
        masking: float = 0.15,
        seed: int = 0,
    ) -> None:
        self.before, self.after = encoder_frame(tokenizer)
        if not self.after:
            raise VocabularyError(
                "the tokenizer has no token to separate segments, as next-sentence prediction needs: set its sep_token"
            )
        self.body = length - len(self.before) - 2 * len(self.after)  # [CLS] first [SEP] second [SEP]
        self.half = self.body // 2
        self.count = packed.blocks(self.body) if self.half else 0
        if self.count < 2:
            raise InputError(
                f"the text has {len(packed)} tokens, too few for two sequences of {length}: give more text, or shorter "
                "sequences (length)"
            )
        self.packed, self.seed = packed, seed
        self.masks = Masks(tokenizer, masking, seed)
        self.label_share = masking
        self.objectives = 1

    def batch(self, positions: list[int]) -> Batch:
        """Return the rows at some positions."""
        rows, labels = zip(*(self._row(position) for position in positions), strict=True)
        second_starts = len(self.before) + self.half + len(self.after)
        types = (torch.arange(len(rows[0])) >= second_starts).long().expand(len(rows), -1)
        masked = self.masks(torch.from_numpy(np.stack(rows)), positions)
        return masked | {"token_type_ids": types.contiguous(), "next_sentence_label": torch.tensor(labels)}

    def _row(self, position: int) -> tuple[np.ndarray, int]:
        epoch, index = divmod(position, self.count)
        block = int(self._order(epoch)[index])
        draws = np.random.default_rng((self.seed, _DRAWS, position))
        label = FOLLOWS if draws.random() < 0.5 else DOES_NOT_FOLLOW
        other = block
        if label == DOES_NOT_FOLLOW:
            # An offset from 1 to count - 1 always selects another block.
            other = (block + 1 + int(draws.integers(self.count - 1))) % self.count
        first, second = self._block(block)[: self.half], self._block(other)[self.half :]
        return np.concatenate([self.before, first, self.after, second, self.after]).astype(np.int64), label

    def _block(self, number: int) -> np.ndarray:
        return self.packed.tokens[number * self.body : (number + 1) * self.body]

    @lru_cache(maxsize=2)  # noqa: B019 (the cache may live as long as the object)
    def _order(self, epoch: int) -> np.ndarray:
        return np.random.default_rng((self.seed, epoch)).permutation(self.count)
