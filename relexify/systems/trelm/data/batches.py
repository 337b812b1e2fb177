"""The rows of a batch of parallel text: sentence pairs for CdLM, TLM or BRLM, and masked sentences.

In transfer training, rows at even positions of a run are sentence pairs. Each is followed by the masked target sentence
of the same pair (Algorithm 1, lines 9 to 13). Unless all tokens have equal weight (`Weighting`), each of the two
objectives has its own loss, the mean over its labels.

A row depends only on its position and the seed, as in `relexify.training.data.batches`, so a resumed run reads the same
rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import get_args

import numpy as np
import torch
from transformers import PreTrainedTokenizerFast

from relexify.pretrained.architecture import IGNORED, encoder_frame
from relexify.systems.trelm.data.pairs import AlignedPairs, AlignedSentence
from relexify.systems.trelm.model.encoder import UNALIGNED
from relexify.systems.trelm.model.folder import Tokenizers
from relexify.systems.trelm.options import Direction, Objective, Weighting
from relexify.training.data.batches import Batch, Batches, Masks

__all__ = ["TARGET_INDEX", "InLanguage", "PairBatches"]

Row = dict[str, np.ndarray]
"""The arrays of one row: [tokens], or a single number."""
TARGET_INDEX = 1
"""Index of the target language."""
_MULTIPLE = 8
"""Rows are padded to a multiple of this, so that there are only a few different shapes."""
_FILL = {"labels": IGNORED, "order": UNALIGNED}
"""Padding values of arrays that are not padded with 0."""


class PairBatches:
    """Rows of parallel text.

    Args:
        pairs: The parallel text.
        tokenizers: One tokenizer for both languages, or a tokenizer for the source and one for the target language.
        direction: Which sentence is read and which is predicted.
        objective: The training objective for pairs.
        weighting: Whether objectives or tokens have equal weight in the loss.
        segments: Number of segments that the model distinguishes.
        length: Maximum number of tokens per sequence; rows are not padded beyond it.
        masking: Share of the tokens that are masked.
        seed: Random seed of the order and the masks.

    Raises:
        VocabularyError: A tokenizer has no mask token.
    """

    label_share = 1.0  # CdLM predicts every position

    def __init__(
        self,
        pairs: AlignedPairs,
        tokenizers: PreTrainedTokenizerFast | Tokenizers,
        *,
        direction: Direction = "source-to-target",
        objective: Objective = "cdlm",
        weighting: Weighting = "objectives",
        segments: int = 2,
        length: int | None = None,
        masking: float = 0.15,
        seed: int = 0,
    ) -> None:
        self.pairs, self.objective, self.seed = pairs, objective, seed
        self.objectives = 2 if weighting == "objectives" else 1
        self.read = get_args(Direction).index(direction)  # index of the input language
        both = tokenizers if isinstance(tokenizers, tuple) else (tokenizers, tokenizers)
        self.frames = tuple(encoder_frame(tokenizer) for tokenizer in both)
        self.segments, self.length = segments, length
        self.masks = tuple(Masks(tokenizer, masking, seed) for tokenizer in both)
        self.padding = tuple(tokenizer.pad_token_id or 0 for tokenizer in both)

    def batch(self, positions: list[int]) -> Batch:
        """Return the rows at some positions, padded to one length."""
        rows = [self._row(position) for position in positions]
        padded = {name: _pad([row[name] for row in rows], _FILL.get(name, 0), self.length) for name in rows[0]}
        # Pad a row with the padding token of its language; if a row contains both languages, of the first one.
        languages = [int(row["languages"]) if row["languages"].ndim == 0 else 0 for row in rows]
        fill = torch.tensor([self.padding[language] for language in languages])[:, None]
        return padded | {"input_ids": torch.where(padded["attention_mask"] == 1, padded["input_ids"], fill)}

    def _row(self, position: int) -> Row:
        epoch, index = divmod(position // 2, len(self.pairs))  # every pair has two positions
        pair = self.pairs.pair(int(self._order(epoch)[index]))
        if position % 2 == 1:
            return self._masked_target(pair[TARGET_INDEX], position)
        if self.objective == "cdlm":
            return self._translation(pair)
        return self._masked_pair(pair, position)

    def _translation(self, pair: tuple[AlignedSentence, AlignedSentence]) -> Row:
        """Return a row of CdLM: one sentence is the input, and every token of the other is a label.

        The special tokens around the two sentences are aligned to each other.
        """
        read, written = pair[self.read], pair[1 - self.read]
        before, after = (len(ids) for ids in self.frames[self.read])
        first, last = (len(ids) for ids in self.frames[1 - self.read])
        order = np.concatenate(
            [
                _align_special(first, before),
                np.where(written.positions == UNALIGNED, UNALIGNED, written.positions + before),
                _align_special(last, after, before + len(read.ids)),
            ]
        )
        return {
            **_inputs(self._framed(read.ids, self.read)),
            "languages": np.array(self.read),
            "order": order,
            "target_attention_mask": np.ones_like(order),
            "target_languages": np.array(1 - self.read),
            "labels": self._framed(written.ids, 1 - self.read),
        }

    def _masked_target(self, sentence: AlignedSentence, position: int) -> Row:
        """Return a row of MLM on a target sentence, with the same arrays as a row of a pair."""
        ids = self._framed(sentence.ids, TARGET_INDEX)
        identity = np.arange(len(ids))
        inputs, labels = self._mask(ids, position, np.full_like(identity, TARGET_INDEX))
        if self.objective == "cdlm":  # MLM is CdLM with the identity as O
            return {
                **_inputs(inputs),
                "languages": np.array(TARGET_INDEX),
                "order": identity,
                "target_attention_mask": np.ones_like(identity),
                "target_languages": np.array(TARGET_INDEX),
                "labels": labels,
            }
        row = {
            **_inputs(inputs),
            "token_type_ids": np.zeros_like(identity),
            "languages": np.full_like(identity, TARGET_INDEX),
            "labels": labels,
        }
        if self.objective == "brlm":
            row["bridge"] = identity
        return row

    def _masked_pair(self, pair: tuple[AlignedSentence, AlignedSentence], position: int) -> Row:
        """Return a row of TLM or BRLM: a sentence and its translation in one sequence, with masks in both."""
        read, written = pair[self.read], pair[1 - self.read]
        before, after = self.frames[self.read]
        first, second = [*before, *read.ids, *after], [*written.ids, *self.frames[1 - self.read][1]]
        segments = np.repeat([0, 1], [len(first), len(second)])
        languages = np.where(segments == 0, self.read, 1 - self.read)
        inputs, labels = self._mask(np.array(first + second, np.int64), position, languages)
        row = _inputs(inputs) | {
            "token_type_ids": np.minimum(segments, self.segments - 1),
            "languages": languages,
            "labels": labels,
        }
        if self.objective != "brlm":
            return row
        # A masked token is predicted at the position of the token it is aligned to; all others at their own position.
        starts = len(before), len(first)
        bridge = np.arange(len(inputs))
        for segment, other, sentence in ((0, 1, read), (1, 0, written)):
            part = slice(starts[segment], starts[segment] + len(sentence.ids))
            linked = np.where(sentence.positions == UNALIGNED, bridge[part], sentence.positions + starts[other])
            bridge[part] = np.where(labels[part] == IGNORED, bridge[part], linked)
        return row | {"bridge": bridge}

    def _mask(self, ids: np.ndarray, position: int, languages: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return masked inputs and labels; random replacements are drawn from the vocabulary of a token's language."""
        inputs, labels = np.empty_like(ids), np.empty_like(ids)
        for language in np.unique(languages):
            masked = self.masks[language](torch.from_numpy(ids)[None], [position])
            in_language = languages == language
            inputs[in_language] = masked["input_ids"][0].numpy()[in_language]
            labels[in_language] = masked["labels"][0].numpy()[in_language]
        return inputs, labels

    def _framed(self, ids: np.ndarray, language: int) -> np.ndarray:
        """Return a sentence with the special tokens around it."""
        before, after = self.frames[language]
        return np.concatenate([np.array(before, np.int64), ids, np.array(after, np.int64)])

    @lru_cache(maxsize=2)  # noqa: B019 (the cache may live as long as the object)
    def _order(self, epoch: int) -> np.ndarray:
        return np.random.default_rng((self.seed, epoch)).permutation(len(self.pairs))


@dataclass(frozen=True)
class InLanguage:
    """The rows of a text, each with its language.

    Attributes:
        text: Rows without languages.
        language: Index of the language in the model.
    """

    text: Batches
    language: int

    @property
    def label_share(self) -> float:
        """The share of positions with labels."""
        return self.text.label_share

    @property
    def objectives(self) -> int:
        """The number of objectives that rows of the text alternate between."""
        return self.text.objectives

    def batch(self, positions: list[int]) -> Batch:
        """Return the rows at some positions."""
        rows = self.text.batch(positions)
        return rows | {"languages": torch.full((len(positions),), self.language)}


def _align_special(written: int, read: int, start: int = 0) -> np.ndarray:
    """Align special tokens one by one; remaining special tokens are aligned to the last one of the input.

    Args:
        written: Number of special tokens in the predicted sentence.
        read: Number of special tokens in the input sentence.
        start: Position of the first special token of the input.
    """
    if read == 0:
        return np.full(written, UNALIGNED)
    return start + np.minimum(np.arange(written), read - 1)


def _inputs(ids: np.ndarray) -> Row:
    return {"input_ids": ids, "attention_mask": np.ones_like(ids)}


def _pad(rows: Sequence[np.ndarray], fill: int, length: int | None) -> torch.Tensor:
    """Stack rows, padded to a multiple of `_MULTIPLE`, but not beyond `length` unless a row itself is longer."""
    if rows[0].ndim == 0:
        return torch.from_numpy(np.stack(rows))
    longest = max(len(row) for row in rows)
    width = -(-longest // _MULTIPLE) * _MULTIPLE
    if length is not None:
        width = max(longest, min(width, length))
    return torch.from_numpy(np.stack([np.pad(row, (0, width - len(row)), constant_values=fill) for row in rows]))
