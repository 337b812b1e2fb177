"""Encode examples of a task as model inputs, and decode tags of words from the model's predictions.

Every word of a tagged sentence, including the first, is tokenized as after a space in running text, so that tokenizers
that mark the starts of words do not need `add_prefix_space`. Words of a script without spaces are tokenized without a
space, because otherwise the first piece would often be the space itself. The tag of a word belongs to its first piece.
Words without pieces (a lone U+200B) and words beyond the longest sequence are not tagged, but still count in scores.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import PreTrainedTokenizerFast

from relexify.errors import InputError
from relexify.evaluation.data.answers import Passage
from relexify.evaluation.data.choices import Question
from relexify.evaluation.data.columns import TaggedSentence
from relexify.evaluation.data.examples import Example
from relexify.evaluation.finetuning.windows import Window, array_names, encode_passages
from relexify.pretrained.architecture import IGNORED, encoder_frame
from relexify.tokens import copy_backend, encode_sentences

__all__ = [
    "TARGETS",
    "EncodedData",
    "WordPieces",
    "encode_answers",
    "encode_classes",
    "encode_numbers",
    "encode_questions",
    "encode_tags",
    "piece_labels",
    "row_width",
    "stack_rows",
    "tokenize_words",
    "word_tags",
]

TARGETS = ("labels", "start_positions", "end_positions")
"""The arrays of a batch that a model is trained to predict."""


@dataclass(frozen=True)
class WordPieces:
    """A tokenized sentence of words.

    Attributes:
        ids: All pieces, with the special tokens around them.
        first: For each word, the index of its first piece in `ids`; None if it has no pieces or was truncated.
    """

    ids: tuple[int, ...]
    first: tuple[int | None, ...]


@dataclass(frozen=True)
class EncodedData:
    """Examples as model inputs.

    Attributes:
        rows: `input_ids`, `attention_mask`, `labels` and possibly `token_type_ids` of each example. For multiple
            choice, the inputs are lists with one sequence for each answer. For a text with a question, there is one row
            for each window, with `start_positions` and `end_positions` in place of `labels`.
        gold: The label of each example, the tags of each sentence, or the right answers of each question.
        pieces: For sentences, their pieces; otherwise empty.
        answers: For multiple choice, the number of answers to choose from; otherwise empty.
        windows: For texts with questions, the part of the text in each row; otherwise empty.
    """

    rows: list[dict[str, Any]]
    gold: list[Any]
    pieces: list[WordPieces] = field(default_factory=list)
    answers: list[int] = field(default_factory=list)
    windows: list[Window] = field(default_factory=list)


def encode_classes(
    data: Sequence[Example], labels: tuple[str, ...], tokenizer: PreTrainedTokenizerFast, length: int, token_types: int
) -> EncodedData:
    """Encode texts or pairs with a class; arguments of this and the next functions as for `Prediction.encode`."""
    label_ids = {label: number for number, label in enumerate(labels)}
    return _encode_examples(data, [label_ids[str(each.label)] for each in data], tokenizer, length, token_types)


def encode_numbers(
    data: Sequence[Example], labels: tuple[str, ...], tokenizer: PreTrainedTokenizerFast, length: int, token_types: int
) -> EncodedData:
    """Encode texts or pairs with a number."""
    return _encode_examples(data, [each.label for each in data], tokenizer, length, token_types)


def encode_questions(
    data: Sequence[Question], labels: tuple[str, ...], tokenizer: PreTrainedTokenizerFast, length: int, token_types: int
) -> EncodedData:
    """Encode every answer as a pair: the text, and the question with the answer.

    All questions are padded to the same number of answers with empty answers: training learns that these are wrong, and
    they are never predicted.
    """
    most = len(labels)
    pairs = [
        (question.first, f"{question.second} {answer}".strip())
        for question in data
        for answer in (*question.options, *[""] * (most - len(question.options)))
    ]
    firsts, seconds = ([pair[side] for pair in pairs] for side in (0, 1))
    encoded = _encode_texts(tokenizer, firsts, seconds, length, token_types)
    rows: list[dict[str, Any]] = []
    for number, question in enumerate(data):
        sequences = encoded[number * most : (number + 1) * most]  # one for each answer
        rows.append({name: [each[name] for each in sequences] for name in sequences[0]} | {"labels": question.label})
    answers = [len(question.options) for question in data]
    return EncodedData(rows, [str(question.label) for question in data], answers=answers)


def encode_answers(
    data: Sequence[Passage], labels: tuple[str, ...], tokenizer: PreTrainedTokenizerFast, length: int, token_types: int
) -> EncodedData:
    """Encode texts with a question in windows."""
    rows, windows = encode_passages(data, tokenizer, length, token_types)
    return EncodedData(rows, [passage.answers for passage in data], windows=windows)


def encode_tags(
    data: Sequence[TaggedSentence],
    labels: tuple[str, ...],
    tokenizer: PreTrainedTokenizerFast,
    length: int,
    token_types: int,
) -> EncodedData:
    """Encode sentences of tagged words."""
    label_ids = {label: number for number, label in enumerate(labels)}
    pieces = tokenize_words(tokenizer, [sentence.words for sentence in data], length=length)
    rows: list[dict[str, Any]] = [
        {
            "input_ids": list(tokenized.ids),
            "attention_mask": [1] * len(tokenized.ids),
            "labels": piece_labels(tokenized, [label_ids.get(tag, IGNORED) for tag in sentence.tags]),
        }
        for tokenized, sentence in zip(pieces, data, strict=True)
    ]
    return EncodedData(rows, [list(sentence.tags) for sentence in data], pieces=pieces)


def stack_rows(rows: Sequence[Mapping[str, Any]], padding: int) -> dict[str, torch.Tensor]:
    """Stack rows into a batch, padded to the longest."""
    multiple = 8 if torch.cuda.is_available() else 1  # tensor cores prefer multiples of 8
    width = math.ceil(max(map(row_width, rows)) / multiple) * multiple
    fill = {"input_ids": padding, "attention_mask": 0, "token_type_ids": 0} | dict.fromkeys(TARGETS, IGNORED)
    return {name: torch.tensor([_pad(row[name], width, fill[name]) for row in rows]) for name in rows[0]}


def row_width(row: Mapping[str, Any]) -> int:
    """Return the number of tokens of a row, or of its longest sequence if it has several."""
    ids = row["input_ids"]
    return max(map(len, ids)) if ids and isinstance(ids[0], list) else len(ids)


def _pad(value: object, width: int, fill: int) -> object:
    """Pad a sequence, or each sequence of a list; a single label is returned unchanged."""
    if not isinstance(value, list):
        return value
    if value and isinstance(value[0], list):
        return [_pad(each, width, fill) for each in value]
    return value + [fill] * (width - len(value))


def tokenize_words(
    tokenizer: PreTrainedTokenizerFast, sentences: Sequence[Sequence[str]], *, length: int
) -> list[WordPieces]:
    """Tokenize sentences of words.

    Args:
        tokenizer: A tokenizer with a fast backend; it is not changed.
        sentences: The words of each sentence; a sentence may have none.
        length: Maximum number of tokens of a sequence, including special tokens.

    Raises:
        InputError: The length leaves no room for a piece in addition to the special tokens.
        VocabularyError: The tokenizer has no fast backend.
    """
    before, after = encoder_frame(tokenizer)
    room = length - len(before) - len(after)
    if room < 1:
        raise InputError(f"`length={length}` leaves no room for words besides special tokens: give a greater length")
    backend = copy_backend(tokenizer)
    backend.encode_special_tokens = True  # a word that is spelled like a special token is ordinary text
    tokenized = []
    for words in encode_sentences(backend, sentences):
        ids: list[int] = []
        first: list[int | None] = []
        for pieces in words:
            first.append(len(before) + len(ids) if pieces and len(ids) < room else None)
            ids.extend(pieces[: max(0, room - len(ids))])
        tokenized.append(WordPieces((*before, *ids, *after), tuple(first)))
    return tokenized


def piece_labels(sentence: WordPieces, labels: Sequence[int]) -> list[int]:
    """Return a label for each piece: the word's label for its first piece, `IGNORED` for all others.

    Args:
        sentence: The pieces.
        labels: The label of each word; `IGNORED` for words that are not trained on.
    """
    result = [IGNORED] * len(sentence.ids)
    for index, label in zip(sentence.first, labels, strict=True):
        if index is not None:
            result[index] = label
    return result


def word_tags(sentence: WordPieces, predicted: Sequence[int], tags: Sequence[str], *, default: str) -> list[str]:
    """Return the predicted tag of each word.

    Args:
        sentence: The pieces.
        predicted: The number of a tag for each piece; padding after the sentence is ignored.
        tags: The tags by number.
        default: The tag of words without a first piece.
    """
    return [default if index is None else tags[int(predicted[index])] for index in sentence.first]


def _encode_examples(
    data: Sequence[Example], values: Sequence[object], tokenizer: PreTrainedTokenizerFast, length: int, token_types: int
) -> EncodedData:
    """Encode only texts, or only pairs, with the value to predict for each."""
    seconds = None if data[0].second is None else [each.second or "" for each in data]
    encoded = _encode_texts(tokenizer, [each.first for each in data], seconds, length, token_types)
    rows = [{**arrays, "labels": value} for arrays, value in zip(encoded, values, strict=True)]
    return EncodedData(rows, [each.label for each in data])


def _encode_texts(
    tokenizer: PreTrainedTokenizerFast,
    firsts: Sequence[str],
    seconds: Sequence[str] | None,
    length: int,
    token_types: int,
) -> list[dict[str, list[int]]]:
    """Return the arrays of each text or pair, the longer text truncated first."""
    encoded = tokenizer(
        list(firsts), None if seconds is None else list(seconds), truncation="longest_first", max_length=length
    )
    names = array_names(encoded, token_types)
    return [{name: list(encoded[name][index]) for name in names} for index in range(len(firsts))]
