"""Examples of a task as a model reads them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from relexify.evaluation.data.columns import TaggedSentence
from relexify.evaluation.data.examples import Example
from relexify.evaluation.finetuning.problem import Data, Problem
from relexify.evaluation.finetuning.word_pieces import WordPieces, cut_sentences, labels_of
from relexify.pretrained.architecture import IGNORED

__all__ = ["Inputs", "collate", "encode"]


@dataclass(frozen=True)
class Inputs:
    """Examples as a model reads them; `pieces` for words alone."""

    rows: list[dict[str, Any]]
    gold: list[Any]
    pieces: list[WordPieces]


def encode(problem: Problem, tokenizer: Any, data: Data, length: int, *, kinds: int) -> Inputs:
    """Examples as a model reads them.

    Args:
        problem: What is to be learnt.
        tokenizer: The model's.
        data: Of the problem's kind.
        length: Tokens a sequence; longer ones are cut.
        kinds: How many kinds of tokens (first text, second text) the model tells apart.
    """
    numbers = {label: number for number, label in enumerate(problem.labels)}
    if problem.task.predicts == "tags":
        return _tagged([each for each in data if isinstance(each, TaggedSentence)], tokenizer, numbers, length)
    examples = [each for each in data if isinstance(each, Example)]
    gold = [example.label for example in examples]
    labels = gold if problem.task.predicts == "number" else [numbers[str(label)] for label in gold]
    rows = _texts(examples, tokenizer, length, kinds)
    return Inputs([{**row, "labels": label} for row, label in zip(rows, labels, strict=True)], gold, [])


def collate(rows: Sequence[Mapping[str, Any]], padding: int) -> dict[str, torch.Tensor]:
    """Rows of one batch, padded to the longest."""
    multiple = 8 if torch.cuda.is_available() else 1
    width = math.ceil(max(len(row["input_ids"]) for row in rows) / multiple) * multiple
    fill = {"input_ids": padding, "attention_mask": 0, "token_type_ids": 0, "labels": IGNORED}

    def stacked(name: str) -> torch.Tensor:
        values = [row[name] for row in rows]
        if isinstance(values[0], list):
            values = [value + [fill[name]] * (width - len(value)) for value in values]
        return torch.tensor(values)

    return {name: stacked(name) for name in rows[0]}


def _tagged(sentences: Sequence[TaggedSentence], tokenizer: Any, numbers: Mapping[str, int], length: int) -> Inputs:
    pieces = cut_sentences(tokenizer, [sentence.words for sentence in sentences], length=length)
    rows: list[dict[str, Any]] = [
        {
            "input_ids": list(cut.ids),
            "attention_mask": [1] * len(cut.ids),
            "labels": labels_of(cut, [numbers.get(tag, IGNORED) for tag in sentence.tags]),
        }
        for cut, sentence in zip(pieces, sentences, strict=True)
    ]
    return Inputs(rows, [list(sentence.tags) for sentence in sentences], pieces)


def _texts(examples: Sequence[Example], tokenizer: Any, length: int, kinds: int) -> list[dict[str, Any]]:
    """Texts or pairs of them, in tokens."""
    seconds = [example.second for example in examples]
    encoded = tokenizer(
        [example.first for example in examples],
        None if seconds[0] is None else seconds,
        truncation="longest_first",
        max_length=length,
    )
    names = ["input_ids", "attention_mask"]
    if "token_type_ids" in encoded and kinds > 1:  # tokenizers of RoBERTa's kind may give them all the same
        names.append("token_type_ids")
    return [{name: list(encoded[name][place]) for name in names} for place in range(len(examples))]
