"""What a model makes of sentences and words: means of its last hidden states, one row each.

Every text stands between the special tokens that its tokenizer puts around it, which the mean leaves out. Texts of
like length are read together, padded on the right and masked, so that a row does not depend on its neighbours.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer

from relexify.errors import InputError
from relexify.pretrained.architecture import check_fit, inner_encoder, tokenizer_frame, usable_length
from relexify.progress import track
from relexify.text import is_unspaced
from relexify.tokens import backend_of, encode_words, make_encodable

__all__ = ["sentence_means", "word_means"]

LENGTH = 512
"""Pieces that a model reads at once, where not told otherwise."""

logger = logging.getLogger(__name__)


def sentence_means(
    model: Any, tokenizer: Any, texts: Sequence[str], *, length: int = LENGTH, batch: int = 32
) -> np.ndarray:
    """The mean of the last hidden states of every text's pieces, [n × d] float32.

    Special tokens and padding do not count. A text without pieces is a row of zeros; of a text that is too long the
    beginning counts, and that is told. A text that occurs several times is read once.

    Args:
        model: An encoder, a decoder, or an encoder-decoder, of which the encoder reads; with or without a head.
        tokenizer: Its tokenizer.
        texts: Running text.
        length: Pieces that the model reads at once, special tokens included; never more than it can.
        batch: Texts at a time.

    Raises:
        InputError: The length leaves no room for text.
        VocabularyError: The tokenizer is not the model's.
    """
    reader = _reader(model, tokenizer, length)
    places = {text: place for place, text in enumerate(dict.fromkeys(texts))}
    clean = [make_encodable(text)[0] for text in places]
    pieces = [encoding.ids for encoding in reader.backend.encode_batch_fast(clean, add_special_tokens=False)]
    _tell_of_cut("texts", sum(len(ids) > reader.room for ids in pieces), len(pieces), reader)
    sequences = [_Sequence(ids[: reader.room], [min(len(ids), reader.room)]) for ids in pieces]
    means = np.concatenate(_means(model, reader, sequences, batch) or [np.zeros((0, _width(model)))])
    rows: np.ndarray = means[[places[text] for text in texts]].astype(np.float32)
    return rows


def word_means(
    model: Any, tokenizer: Any, sentences: Sequence[Sequence[str]], *, length: int = LENGTH, batch: int = 32
) -> list[np.ndarray]:
    """The mean of the last hidden states of every word's pieces, [words × d] float32 for each sentence.

    Words are cut into pieces as after a space, or as they are in sentences of a script that writes none. A word
    without pieces is a row of zeros, and so is one that does not fit into the length, which is told.

    Args:
        model: An encoder, a decoder, or an encoder-decoder, of which the encoder reads; with or without a head.
        tokenizer: Its tokenizer.
        sentences: The words of each.
        length: Pieces that the model reads at once, special tokens included; never more than it can.
        batch: Sentences at a time.

    Raises:
        InputError: The length leaves no room for text.
        VocabularyError: The tokenizer is not the model's.
    """
    reader = _reader(model, tokenizer, length)
    pieces = _pieces_of_words(reader.backend, sentences)
    fitting = [_fitting(words, reader.room) for words in pieces]
    lost = sum(bool(ids) for words, fit in zip(pieces, fitting, strict=True) for ids in words[fit:])
    _tell_of_cut("words", lost, sum(map(len, pieces)), reader)
    sequences = [
        _Sequence([id for ids in words[:fit] for id in ids], [len(ids) for ids in words[:fit]])
        for words, fit in zip(pieces, fitting, strict=True)
    ]
    means = _means(model, reader, sequences, batch)
    return [
        np.concatenate([rows, np.zeros((len(words) - len(rows), rows.shape[1]), np.float32)])
        for words, rows in zip(sentences, means, strict=True)
    ]


@dataclass(frozen=True)
class _Reader:
    """How a tokenizer's text goes into a model: a tokenizer that neither cuts nor pads, and what stands around."""

    backend: Tokenizer
    before: list[int]
    after: list[int]
    padding: int
    room: int


@dataclass(frozen=True)
class _Sequence:
    """Pieces, and how many of them, in order, make each unit that a mean is wanted of."""

    pieces: list[int]
    lengths: list[int]


def _reader(model: Any, tokenizer: Any, length: int) -> _Reader:
    check_fit(model, tokenizer)
    backend = Tokenizer.from_str(backend_of(tokenizer).to_str())  # earlier calls may have left padding on
    backend.no_truncation()
    backend.no_padding()
    backend.encode_special_tokens = True  # what spells a special token is text like all others
    before, after = tokenizer_frame(backend)
    room = min(length, usable_length(model) or length) - len(before) - len(after)
    if room < 1:
        raise InputError(f"length = {length} leaves no room for text beside the special tokens: give a longer one")
    padding = getattr(tokenizer, "pad_token_id", None)
    return _Reader(backend, before, after, 0 if padding is None else int(padding), room)


def _pieces_of_words(backend: Tokenizer, sentences: Iterable[Sequence[str]]) -> list[list[list[int]]]:
    """The pieces of every word; each spelling is looked up once."""
    spaced = [(sentence, not _is_unspaced(sentence)) for sentence in sentences]
    known: dict[bool, dict[str, list[int]]] = {}
    for after_space in (False, True):
        words = list(dict.fromkeys(word for sentence, space in spaced for word in sentence if space == after_space))
        ids = encode_words(backend, [make_encodable(word)[0] for word in words], after_space=after_space)
        known[after_space] = dict(zip(words, ids, strict=True))
    return [[known[space][word] if word else [] for word in sentence] for sentence, space in spaced]


def _is_unspaced(sentence: Sequence[str]) -> bool:
    """Whether most words that begin with a letter begin with one of a script without spaces."""
    begins = [word[0] for word in sentence if word and (word[0].isalpha() or is_unspaced(word[0]))]
    return 2 * sum(map(is_unspaced, begins)) > len(begins)


def _fitting(words: Sequence[Sequence[int]], room: int) -> int:
    """How many words, from the first, have room together."""
    ends = np.cumsum([len(ids) for ids in words])
    return int(np.searchsorted(ends, room, side="right"))


def _tell_of_cut(what: str, cut: int, total: int, reader: _Reader) -> None:
    if cut:
        logger.warning("%d of %d %s do not fit into the %d pieces that the model reads", cut, total, what, reader.room)


def _means(model: Any, reader: _Reader, sequences: Sequence[_Sequence], batch: int) -> list[np.ndarray]:
    """The means of each sequence's units, [units × d] float32; sequences of like length are read together."""
    means = [np.zeros((len(each.lengths), _width(model)), np.float32) for each in sequences]
    order = sorted((len(each.pieces), place) for place, each in enumerate(sequences) if each.pieces)
    body, was_training = inner_encoder(model), model.training
    model.eval()
    try:
        with track("reading", len(order)) as advance, torch.inference_mode():
            for start in range(0, len(order), batch):
                places = [place for _, place in order[start : start + batch]]
                found = _batch_means(body, reader, [sequences[place] for place in places], model.device)
                for place, rows in zip(places, found, strict=True):
                    means[place] = rows[: len(means[place])]
                advance(len(places))
    finally:
        model.train(was_training)
    return means


def _batch_means(body: Any, reader: _Reader, sequences: Sequence[_Sequence], device: Any) -> np.ndarray:
    """One matrix product a sequence: shares [units × length] times hidden states [length × d]."""
    rows = [[*reader.before, *each.pieces, *reader.after] for each in sequences]
    longest, units = max(map(len, rows)), max(len(each.lengths) for each in sequences)
    inputs = np.full((len(rows), longest), reader.padding, dtype=np.int64)
    mask = np.zeros((len(rows), longest), dtype=np.int64)
    shares = np.zeros((len(rows), units, longest), dtype=np.float32)
    for place, (row, sequence) in enumerate(zip(rows, sequences, strict=True)):
        inputs[place, : len(row)], mask[place, : len(row)] = row, 1
        start = len(reader.before)
        for unit, size in enumerate(sequence.lengths):
            shares[place, unit, start : start + size] = 1 / max(size, 1)
            start += size
    given = torch.from_numpy(mask).to(device)
    states = body(input_ids=torch.from_numpy(inputs).to(device), attention_mask=given).last_hidden_state.float()
    states = states.masked_fill(given[:, :, None] == 0, 0.0)  # what a model says of padding may not even be a number
    means: np.ndarray = torch.bmm(torch.from_numpy(shares).to(device), states).cpu().numpy()
    return means


def _width(model: Any) -> int:
    """Of the hidden states."""
    return int(model.config.get_text_config().hidden_size)
