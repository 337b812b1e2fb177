"""Features of sentences and words: means of a model's last hidden states.

Every text is read with the special tokens that its tokenizer adds, but the mean excludes them. Texts of similar length
are read together, padded on the right and masked, so that a row does not depend on the other rows of its batch.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from tokenizers import Tokenizer
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from relexify.errors import InputError
from relexify.pretrained.architecture import check_fit, hidden_width, inner_encoder, tokenizer_frame, usable_length
from relexify.pretrained.runtime.runnable import evaluating
from relexify.progress import track
from relexify.text import make_encodable
from relexify.tokens import copy_backend, encode_sentences

__all__ = ["sentence_means", "word_means"]

LENGTH = 512
"""Default number of pieces that a model reads at once."""

logger = logging.getLogger(__name__)


def sentence_means(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    texts: Sequence[str],
    *,
    length: int = LENGTH,
    batch: int = 32,
) -> np.ndarray:
    """Return the mean of the last hidden states of every text's pieces, [n × d] float32.

    Special tokens and padding are excluded. A text without pieces gets a row of zeros; a text that is too long is
    truncated, with a warning. A text that occurs several times is read once.

    Args:
        model: An encoder, a decoder, or the encoder of an encoder-decoder; with or without a head.
        tokenizer: Its tokenizer.
        texts: Running text.
        length: Maximum number of pieces of a text, including special tokens; limited to what the model supports.
        batch: Number of texts in a batch.

    Raises:
        InputError: The length leaves no room for text.
        VocabularyError: The tokenizer is not the model's.
    """
    reader = _make_reader(model, tokenizer, length)
    index_of = {text: index for index, text in enumerate(dict.fromkeys(texts))}
    clean = [make_encodable(text) for text in index_of]
    pieces = [encoding.ids for encoding in reader.backend.encode_batch_fast(clean, add_special_tokens=False)]
    _warn_of_truncated("texts", sum(len(ids) > reader.room for ids in pieces), len(pieces), reader)
    sequences = [_Sequence(ids[: reader.room], [min(len(ids), reader.room)]) for ids in pieces]
    means = np.concatenate(_mean_states(model, reader, sequences, batch) or [np.zeros((0, hidden_width(model)))])
    rows: np.ndarray = means[[index_of[text] for text in texts]].astype(np.float32)
    return rows


def word_means(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    sentences: Sequence[Sequence[str]],
    *,
    length: int = LENGTH,
    batch: int = 32,
) -> list[np.ndarray]:
    """Return the mean of the last hidden states of every word's pieces, [words × d] float32 for each sentence.

    Words are tokenized as after a space; in sentences of a script without spaces, without a space. Words without pieces
    get a row of zeros; so do words that do not fit into the length, with a warning.

    Args:
        model: An encoder, a decoder, or the encoder of an encoder-decoder; with or without a head.
        tokenizer: Its tokenizer.
        sentences: The words of each sentence.
        length: Maximum number of pieces of a sentence, including special tokens; limited to what the model supports.
        batch: Number of sentences in a batch.

    Raises:
        InputError: The length leaves no room for text.
        VocabularyError: The tokenizer is not the model's.
    """
    reader = _make_reader(model, tokenizer, length)
    pieces = encode_sentences(reader.backend, sentences)
    # The number of words of each sentence, counted from the first, that fit into the length.
    ends = (np.cumsum([len(ids) for ids in words]) for words in pieces)
    fitting = [int(np.searchsorted(each, reader.room, side="right")) for each in ends]
    truncated = sum(bool(ids) for words, fit in zip(pieces, fitting, strict=True) for ids in words[fit:])
    _warn_of_truncated("words", truncated, sum(map(len, pieces)), reader)
    sequences = [
        _Sequence([id for ids in words[:fit] for id in ids], [len(ids) for ids in words[:fit]])
        for words, fit in zip(pieces, fitting, strict=True)
    ]
    means = _mean_states(model, reader, sequences, batch)
    return [
        np.concatenate([rows, np.zeros((len(words) - len(rows), rows.shape[1]), np.float32)])
        for words, rows in zip(sentences, means, strict=True)
    ]


@dataclass(frozen=True)
class _Reader:
    """The settings with which a model reads text.

    Attributes:
        backend: The model's tokenizer, without truncation and padding.
        before: Special tokens before a text.
        after: Special tokens after a text.
        padding: The padding id.
        room: Maximum number of pieces of a text, without special tokens.
    """

    backend: Tokenizer
    before: list[int]
    after: list[int]
    padding: int
    room: int


@dataclass(frozen=True)
class _Sequence:
    """The pieces of a text, and the number of pieces of each unit (text or word) whose mean is computed, in order."""

    pieces: list[int]
    lengths: list[int]


def _make_reader(model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, length: int) -> _Reader:
    """Validate model, tokenizer and length, and return the settings for reading text with them."""
    check_fit(model, tokenizer)
    backend = copy_backend(tokenizer)
    backend.encode_special_tokens = True  # text that is spelled like a special token is ordinary text
    before, after = tokenizer_frame(backend)
    room = min(length, usable_length(model) or length) - len(before) - len(after)
    if room < 1:
        raise InputError(f"`length={length}` leaves no room for text besides special tokens: give a greater length")
    padding = getattr(tokenizer, "pad_token_id", None)
    return _Reader(backend, before, after, 0 if padding is None else int(padding), room)


def _warn_of_truncated(what: str, truncated: int, total: int, reader: _Reader) -> None:
    if truncated:
        logger.warning(
            "%d of %d %s do not fit into the %d pieces that the model reads", truncated, total, what, reader.room
        )


def _mean_states(
    model: PreTrainedModel, reader: _Reader, sequences: Sequence[_Sequence], batch: int
) -> list[np.ndarray]:
    """Return the means of each sequence's units, [units × d] float32; sequences of similar length share a batch."""
    means = [np.zeros((len(each.lengths), hidden_width(model)), np.float32) for each in sequences]
    order = sorted((len(each.pieces), index) for index, each in enumerate(sequences) if each.pieces)
    encoder = inner_encoder(model)
    with evaluating(model), torch.inference_mode(), track("reading", len(order)) as advance:
        for start in range(0, len(order), batch):
            indices = [index for _, index in order[start : start + batch]]
            found = _batch_means(encoder, reader, [sequences[index] for index in indices], model.device)
            for index, rows in zip(indices, found, strict=True):
                means[index] = rows[: len(means[index])]
            advance(len(indices))
    return means


def _batch_means(
    encoder: PreTrainedModel, reader: _Reader, sequences: Sequence[_Sequence], device: torch.device
) -> np.ndarray:
    """Return the means of each sequence's units: the product of shares [units × length] and states [length × d]."""
    rows = [[*reader.before, *each.pieces, *reader.after] for each in sequences]
    longest, units = max(map(len, rows)), max(len(each.lengths) for each in sequences)
    inputs = np.full((len(rows), longest), reader.padding, dtype=np.int64)
    mask = np.zeros((len(rows), longest), dtype=np.int64)
    shares = np.zeros((len(rows), units, longest), dtype=np.float32)
    for index, (row, sequence) in enumerate(zip(rows, sequences, strict=True)):
        inputs[index, : len(row)] = row
        mask[index, : len(row)] = 1
        start = len(reader.before)
        for unit, size in enumerate(sequence.lengths):
            shares[index, unit, start : start + size] = 1 / max(size, 1)
            start += size
    attention = torch.from_numpy(mask).to(device)
    states = encoder(input_ids=torch.from_numpy(inputs).to(device), attention_mask=attention).last_hidden_state.float()
    states = states.masked_fill(attention[:, :, None] == 0, 0.0)  # NaN in padding, times a share of 0, would be NaN
    means: np.ndarray = torch.bmm(torch.from_numpy(shares).to(device), states).cpu().numpy()
    return means
