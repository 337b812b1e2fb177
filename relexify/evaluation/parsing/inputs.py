"""Sentences as a parser takes them: in pieces, each with its word, padded into batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from relexify.errors import InputError
from relexify.evaluation.data.treebank import ParsedSentence
from relexify.pretrained.architecture import IGNORED, tokenizer_frame
from relexify.tokens import encode_words
from relexify.tokens.vocabulary import backend_of

__all__ = ["Cutting", "cut_sentences", "padded_batch"]


class Cutting(NamedTuple):
    """A sentence in pieces.

    Attributes:
        ids: With the special tokens around it.
        word_of_piece: Index of the word of each, -1 for special tokens.
        words: How many words are left, where the sentence was too long.
    """

    ids: list[int]
    word_of_piece: list[int]
    words: int


def cut_sentences(tokenizer: Any, sentences: Sequence[ParsedSentence], length: int | None) -> list[Cutting]:
    """Cut sentences into pieces, as many as fit into `length` together with special tokens.

    A word that is cut in two keeps the pieces that fit; a word of which no piece fits is left out, with all after it.

    Raises:
        InputError: Nothing fits.
    """
    before, after = tokenizer_frame(backend_of(tokenizer))
    room = None if length is None else length - len(before) - len(after)
    if room is not None and room < 1:
        raise InputError(f"a length of {length} leaves no room for words: give a model that takes longer text")
    words = [word for sentence in sentences for word in _spaced(sentence)]
    pieces = iter(encode_words(tokenizer, words))
    return [_cut([next(pieces) for _ in sentence.words], before, after, room) for sentence in sentences]


def padded_batch(
    cuttings: Sequence[Cutting],
    gold: Sequence[tuple[Sequence[int], Sequence[int]]] | None = None,
    *,
    padding: int = 0,
) -> dict[str, torch.Tensor]:
    """What `BiaffineParser.forward` takes.

    Args:
        cuttings: Sentences in pieces.
        gold: Heads, and relations by index, of every sentence's words; what concerns a word left out does not count.
        padding: The id to pad with.
    """
    pieces = max(1, *(len(cutting.ids) for cutting in cuttings)) if cuttings else 1
    words = max(1, *(cutting.words for cutting in cuttings)) if cuttings else 1
    shape = len(cuttings)
    batch = {
        "input_ids": torch.full((shape, pieces), padding),
        "attention_mask": torch.zeros(shape, pieces, dtype=torch.long),
        "word_of_piece": torch.full((shape, pieces), -1),
        "word_mask": torch.zeros(shape, words, dtype=torch.bool),
    }
    for row, cutting in enumerate(cuttings):
        size = len(cutting.ids)
        batch["input_ids"][row, :size] = torch.tensor(cutting.ids, dtype=torch.long)
        batch["attention_mask"][row, : max(1, size)] = 1  # attention to nothing at all gives no numbers
        batch["word_of_piece"][row, :size] = torch.tensor(cutting.word_of_piece, dtype=torch.long)
        batch["word_mask"][row, : cutting.words] = True
    if gold is not None:
        batch |= _gold_tensors(cuttings, gold, words)
    return batch


def _gold_tensors(
    cuttings: Sequence[Cutting], gold: Sequence[tuple[Sequence[int], Sequence[int]]], words: int
) -> dict[str, torch.Tensor]:
    heads, relations = (torch.full((len(cuttings), words), IGNORED) for _ in range(2))
    for row, (cutting, (right, labels)) in enumerate(zip(cuttings, gold, strict=True)):
        for place in range(cutting.words):
            if right[place] <= cutting.words:
                heads[row, place], relations[row, place] = right[place], labels[place]
    return {"heads": heads, "relations": relations}


def _cut(pieces: list[list[int]], before: list[int], after: list[int], room: int | None) -> Cutting:
    ids: list[int] = []
    owners: list[int] = []
    kept = 0
    for word, own in enumerate(pieces):
        left = own if room is None else own[: room - len(ids)]
        if own and not left:
            break
        ids += left
        owners += [word] * len(left)
        kept = word + 1
        if len(left) < len(own):
            break
    return Cutting([*before, *ids, *after], [-1] * len(before) + owners + [-1] * len(after), kept)


def _spaced(sentence: ParsedSentence) -> list[str]:
    spaces = sentence.spaces or (True,) * len(sentence)
    return [f" {word}" if space else word for word, space in zip(sentence.words, spaces, strict=True)]
