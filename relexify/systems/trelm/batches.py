"""What is learnt from pairs of sentences: CdLM (TreLM, section 3.2), TLM and BRLM, each beside MLM.

Even positions of a run are a pair, odd ones the masked target sentence of the same pair (Algorithm 1, lines 9 to 13).
The two have a loss each, here the mean over its own tokens: a translation asks for all tokens, gaps for a few.
A row follows from its position and the seed alone, as in `batches`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, get_args

import numpy as np
import torch

from relexify.errors import InputError, VocabularyError
from relexify.pretrained.architecture import IGNORED, encoder_frame
from relexify.systems.trelm.model.encoder import UNALIGNED
from relexify.systems.trelm.options import Direction, Objective, check_objective
from relexify.systems.trelm.pairs import AlignedPairs, Sentence
from relexify.training.data.batches import Batch, Batches, Masks
from relexify.training.data.packing import PackedText

__all__ = ["FOLLOWS", "InLanguage", "PairBatches", "SegmentPairs"]

Row = dict[str, np.ndarray]
TARGET = 1
MULTIPLE = 8
_FILL = {"labels": IGNORED, "alignment": UNALIGNED}
FOLLOWS, OTHER = 0, 1
"""Labels, as transformers has them."""
_DRAWS = 7


class PairBatches:
    """Rows of parallel text.

    Args:
        pairs: The text.
        tokenizers: One of both languages, or the source language's and the target language's.
        direction: Which sentence is read and which is written.
        objective: What is learnt from a pair.
        segments: How many segments the model knows.
        length: Tokens a sequence, beyond which no row is padded.
        masking: Share of the tokens to ask for where gaps are filled.
        seed: Of the order and of the masks.

    Raises:
        InputError: There is no such objective or direction.
        VocabularyError: A tokenizer has no mask token.
    """

    asked = 1.0
    objectives = 2

    def __init__(
        self,
        pairs: AlignedPairs,
        tokenizers: Any,
        *,
        direction: Direction = "source-to-target",
        objective: Objective = "cdlm",
        segments: int = 2,
        length: int | None = None,
        masking: float = 0.15,
        seed: int = 0,
    ) -> None:
        check_objective(objective)
        if direction not in get_args(Direction):
            raise InputError(f"there is no direction {direction!r}: choose one of {', '.join(get_args(Direction))}")
        self.pairs, self.objective, self.seed = pairs, objective, seed
        self.read = get_args(Direction).index(direction)
        both = tokenizers if isinstance(tokenizers, tuple) else (tokenizers, tokenizers)
        self.frames = tuple(encoder_frame(tokenizer) for tokenizer in both)
        self.segments, self.length = segments, length
        self.masks = tuple(Masks(tokenizer, masking, seed) for tokenizer in both)
        self.padding = tuple(tokenizer.pad_token_id or 0 for tokenizer in both)

    def batch(self, positions: list[int]) -> Batch:
        """The rows at some positions, padded to one length."""
        rows = [self._row(position) for position in positions]
        padded = {name: _padded([row[name] for row in rows], _FILL.get(name, 0), self.length) for name in rows[0]}
        # What pads a row is of the row's language; where tokens have languages, padding has the first one.
        places = [int(row["languages"]) if row["languages"].ndim == 0 else 0 for row in rows]
        fill = torch.tensor([self.padding[place] for place in places])[:, None]
        return padded | {"input_ids": torch.where(padded["attention_mask"] == 1, padded["input_ids"], fill)}

    def _row(self, position: int) -> Row:
        pair = self.pairs.pair(self._number(position // 2))
        if position % 2 == 0:
            return self._translation(pair) if self.objective == "cdlm" else self._gaps(pair, position)
        return self._masked(pair[TARGET], position)

    def _translation(self, pair: tuple[Sentence, Sentence]) -> Row:
        """One sentence read, the other asked for in full, the frames of both aligned to each other."""
        read, written = pair[self.read], pair[1 - self.read]
        before, after = (len(ids) for ids in self.frames[self.read])
        inner = np.where(written.places == UNALIGNED, UNALIGNED, written.places + before)
        first, last = (len(ids) for ids in self.frames[1 - self.read])
        edges = _edge(first, before), _edge(last, after, before + len(read.ids))
        alignment = np.concatenate([edges[0], inner, edges[1]])
        return {
            **_seen(self._framed(read.ids, self.read)),
            "languages": np.array(self.read),
            "alignment": alignment,
            "target_attention_mask": np.ones_like(alignment),
            "target_languages": np.array(1 - self.read),
            "labels": self._framed(written.ids, 1 - self.read),
        }

    def _masked(self, sentence: Sentence, position: int) -> Row:
        """Gaps in a sentence of the target language, in the form that goes with the rows of the pairs."""
        ids = self._framed(sentence.ids, TARGET)
        own = np.arange(len(ids))
        inputs, labels = self._with_gaps(ids, position, np.full_like(own, TARGET))
        if self.objective == "cdlm":
            return {
                **_seen(inputs),
                "languages": np.array(TARGET),
                "alignment": own,
                "target_attention_mask": np.ones_like(own),
                "target_languages": np.array(TARGET),
                "labels": labels,
            }
        row = _seen(inputs) | {"token_type_ids": np.zeros_like(own), "languages": np.full_like(own, TARGET)}
        return row | {"labels": labels} | ({"bridge": own} if self.objective == "brlm" else {})

    def _gaps(self, pair: tuple[Sentence, Sentence], position: int) -> Row:
        """A sentence and its translation in one sequence, with gaps in both."""
        read, written = pair[self.read], pair[1 - self.read]
        before, after = self.frames[self.read]
        first, second = [*before, *read.ids, *after], [*written.ids, *self.frames[1 - self.read][1]]
        sides = np.repeat([0, 1], [len(first), len(second)])
        languages = np.where(sides == 0, self.read, 1 - self.read)
        inputs, labels = self._with_gaps(np.array(first + second, np.int64), position, languages)
        row = _seen(inputs) | {
            "token_type_ids": np.minimum(sides, self.segments - 1),
            "languages": languages,
            "labels": labels,
        }
        if self.objective != "brlm":
            return row
        starts = len(before), len(first)
        bridge = np.arange(len(inputs))
        for own, other, sentence in ((0, 1, read), (1, 0, written)):
            places = slice(starts[own], starts[own] + len(sentence.ids))
            linked = np.where(sentence.places == UNALIGNED, bridge[places], sentence.places + starts[other])
            bridge[places] = np.where(labels[places] == IGNORED, bridge[places], linked)
        return row | {"bridge": bridge}

    def _with_gaps(self, ids: np.ndarray, position: int, languages: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Inputs with gaps and labels for them, each token's by the vocabulary of its language."""
        inputs, labels = np.empty_like(ids), np.empty_like(ids)
        for language in np.unique(languages):
            found, own = self.masks[language](torch.from_numpy(ids)[None], [position]), languages == language
            inputs[own], labels[own] = (found[name][0].numpy()[own] for name in ("input_ids", "labels"))
        return inputs, labels

    def _framed(self, ids: np.ndarray, language: int) -> np.ndarray:
        before, after = self.frames[language]
        return np.concatenate([np.array(before, np.int64), ids, np.array(after, np.int64)])

    def _number(self, position: int) -> int:
        epoch, place = divmod(position, len(self.pairs))
        return int(self._order(epoch)[place])

    @lru_cache(maxsize=2)  # noqa: B019 (as long as its batches)
    def _order(self, epoch: int) -> np.ndarray:
        return np.random.default_rng((self.seed, epoch)).permutation(len(self.pairs))


def _edge(written: int, read: int, start: int = 0) -> np.ndarray:
    """Places that so many special tokens are aligned to, one after the other; the last ones to the last one."""
    if read == 0:
        return np.full(written, UNALIGNED)
    return start + np.minimum(np.arange(written), read - 1)


def _seen(ids: np.ndarray) -> Row:
    return {"input_ids": ids, "attention_mask": np.ones_like(ids)}


def _padded(rows: Sequence[np.ndarray], fill: int, length: int | None) -> torch.Tensor:
    """Rows of one length, a few places more than the longest, so that few shapes occur."""
    if rows[0].ndim == 0:
        return torch.from_numpy(np.stack(rows))
    longest = max(len(row) for row in rows)
    wide = -(-longest // MULTIPLE) * MULTIPLE
    wide = wide if length is None else max(longest, min(wide, length))
    return torch.from_numpy(np.stack([np.pad(row, (0, wide - len(row)), constant_values=fill) for row in rows]))


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
    def label_share(self) -> float:
        """The share of places that are asked for."""
        return self.text.label_share

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
        self.before, self.after = encoder_frame(tokenizer)
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
        self.label_share = masking
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
