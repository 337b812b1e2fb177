"""Encode sentences as inputs of a parser: pieces with the words they belong to, in batches of similar length."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol, TypeVar

import torch
from transformers import PreTrainedTokenizerFast

from relexify.errors import InputError
from relexify.evaluation.parsing.biaffine import BiaffineParser
from relexify.pretrained.architecture import IGNORED, check_fit, tokenizer_frame, usable_length
from relexify.pretrained.runtime.runnable import evaluating
from relexify.progress import track
from relexify.tokens import encode_words
from relexify.tokens.vocabulary import backend_of

__all__ = ["GoldTree", "Sentence", "TokenizedSentence", "padded_batch", "predict", "tokenize_sentences"]

GoldTree = tuple[Sequence[int], Sequence[int]]
"""The head of each word, 0 for ROOT, and the index of its relation."""


class Sentence(Protocol):
    """A sentence of words, with any kind of annotation."""

    @property
    def words(self) -> tuple[str, ...]:
        """The words."""

    @property
    def spaces(self) -> tuple[bool, ...]:
        """Whether there is a space before each word; empty if unknown, which means everywhere."""

    def __len__(self) -> int: ...


AnySentence = TypeVar("AnySentence", bound=Sentence)
Prediction = TypeVar("Prediction")


class TokenizedSentence(NamedTuple):
    """A sentence in pieces.

    Attributes:
        ids: All pieces, with the special tokens around them.
        word_of_piece: Index of the word of each piece, -1 for special tokens.
        words: Number of words that were kept; fewer than in the sentence if it was truncated.
    """

    ids: list[int]
    word_of_piece: list[int]
    words: int


def tokenize_sentences(
    tokenizer: PreTrainedTokenizerFast, sentences: Sequence[Sentence], length: int | None
) -> list[TokenizedSentence]:
    """Tokenize sentences, truncated to `length` pieces including special tokens.

    If a word fits only in part, its first pieces are kept. If no piece of a word fits, the word and all words after it
    are dropped.

    Raises:
        InputError: The length leaves no room for a piece.
    """
    before, after = tokenizer_frame(backend_of(tokenizer))
    room = None if length is None else length - len(before) - len(after)
    if room is not None and room < 1:
        raise InputError(f"a length of {length} leaves no room for words: give a model that can read longer text")
    words = []
    for sentence in sentences:
        spaces = sentence.spaces or (True,) * len(sentence)
        words += [f" {word}" if space else word for word, space in zip(sentence.words, spaces, strict=True)]
    pieces = iter(encode_words(tokenizer, words, exact_spaces=True))
    tokenized = []
    for sentence in sentences:
        ids, word_of_piece, kept = _truncate([next(pieces) for _ in sentence.words], room)
        owners = [-1] * len(before) + word_of_piece + [-1] * len(after)
        tokenized.append(TokenizedSentence([*before, *ids, *after], owners, kept))
    return tokenized


def padded_batch(
    sentences: Sequence[TokenizedSentence], gold: Sequence[GoldTree] | None = None
) -> dict[str, torch.Tensor]:
    """Return the arguments of `BiaffineParser.forward`.

    Args:
        sentences: Tokenized sentences.
        gold: Their trees. Words that were dropped, and words whose head was dropped, get no label.
    """
    rows = len(sentences)
    pieces = max((len(sentence.ids) for sentence in sentences), default=0) or 1
    words = max((sentence.words for sentence in sentences), default=0) or 1
    batch = {
        "input_ids": torch.zeros(rows, pieces, dtype=torch.long),  # padding is masked: its id does not matter
        "attention_mask": torch.zeros(rows, pieces, dtype=torch.long),
        "word_of_piece": torch.full((rows, pieces), -1),
        "word_mask": torch.zeros(rows, words, dtype=torch.bool),
    }
    for row, sentence in enumerate(sentences):
        size = len(sentence.ids)
        batch["input_ids"][row, :size] = torch.tensor(sentence.ids, dtype=torch.long)
        batch["attention_mask"][row, : max(1, size)] = 1  # without any token to attend to, states would be NaN
        batch["word_of_piece"][row, :size] = torch.tensor(sentence.word_of_piece, dtype=torch.long)
        batch["word_mask"][row, : sentence.words] = True
    if gold is not None:
        batch["heads"] = torch.full((rows, words), IGNORED)
        batch["relations"] = torch.full((rows, words), IGNORED)
        for row, (sentence, (heads, relations)) in enumerate(zip(sentences, gold, strict=True)):
            for word in range(sentence.words):
                if heads[word] <= sentence.words:
                    batch["heads"][row, word] = heads[word]
                    batch["relations"][row, word] = relations[word]
    return batch


def predict(
    parser: BiaffineParser,
    tokenizer: PreTrainedTokenizerFast,
    sentences: Sequence[AnySentence],
    decode: Callable[[Sequence[TokenizedSentence], Sequence[AnySentence]], Iterable[Prediction]],
    *,
    batch: int,
) -> list[Prediction]:
    """Return the prediction for each sentence.

    Args:
        parser: The parser, on the device to compute on.
        tokenizer: The tokenizer of the parser's encoder.
        sentences: The sentences to read; sentences that are too long are truncated.
        decode: Returns the predictions for a batch of sentences, given in pieces and in words.
        batch: Number of sentences in a batch.

    Raises:
        VocabularyError: The tokenizer is not the parser's.
    """
    check_fit(parser, tokenizer)
    tokenized = tokenize_sentences(tokenizer, sentences, usable_length(parser.encoder))
    order = sorted(range(len(sentences)), key=lambda index: len(tokenized[index].ids))
    predictions: dict[int, Prediction] = {}
    with evaluating(parser), torch.inference_mode(), track("parsing", len(sentences)) as advance:
        for start in range(0, len(order), batch):
            indices = order[start : start + batch]
            found = decode([tokenized[index] for index in indices], [sentences[index] for index in indices])
            predictions.update(zip(indices, found, strict=True))
            advance(len(indices))
    return [predictions[index] for index in range(len(sentences))]


def _truncate(pieces: list[list[int]], room: int | None) -> tuple[list[int], list[int], int]:
    """Return the pieces that fit, the word of each piece, and the number of words that were kept."""
    ids: list[int] = []
    word_of_piece: list[int] = []
    for word, own in enumerate(pieces):
        fitting = own if room is None else own[: room - len(ids)]
        if own and not fitting:
            return ids, word_of_piece, word
        ids += fitting
        word_of_piece += [word] * len(fitting)
        if len(fitting) < len(own):
            return ids, word_of_piece, word + 1
    return ids, word_of_piece, len(pieces)
