"""Encode running text for training and scoring: without special tokens, with a separator between paragraphs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import numpy as np

from relexify.errors import VocabularyError
from relexify.storage.fingerprint import fingerprint
from relexify.text import make_encodable
from relexify.tokens.vocabulary import copy_backend

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerBase

__all__ = [
    "Encoder",
    "StreamEncoding",
    "TokenSplitting",
    "encodable_batches",
    "encoder_of",
    "separator_of",
    "used_tokens",
]

_BATCH = 1000  # lines


@dataclass(frozen=True)
class Encoder:
    """Encodes texts.

    Attributes:
        encode: Returns the ids of each text, without special tokens around it; it can be pickled.
        identity: A hash of the tokenizer; tokenizers with the same hash give the same ids.
    """

    encode: Callable[[list[str]], Iterable[Sequence[int]]]
    identity: str


def encoder_of(tokenizer: PreTrainedTokenizerBase) -> Encoder:
    """Return the fastest encoder for a tokenizer; the tokenizer is not changed."""
    backend: Any = getattr(tokenizer, "backend_tokenizer", None)
    if not hasattr(backend, "encode_batch_fast"):
        # A slow tokenizer, written in Python, has no serialised state to hash.
        state = [type(tokenizer).__qualname__, tokenizer.get_vocab(), getattr(tokenizer, "init_kwargs", {})]
        return Encoder(_SlowEncoding(tokenizer), fingerprint(json.dumps(state, sort_keys=True, default=str)))
    encoding = _FastEncoding(copy_backend(backend), bool(getattr(tokenizer, "split_special_tokens", False)))
    return Encoder(encoding, fingerprint(f"{encoding.splits_special} {encoding.backend.to_str()}"))


def separator_of(tokenizer: PreTrainedTokenizerBase) -> int:
    """Return the id to put between paragraphs: end of sequence, or else separator, or else beginning of sequence.

    Raises:
        VocabularyError: The tokenizer has none of these.
    """
    for role in ("eos", "sep", "bos"):
        identifier = getattr(tokenizer, f"{role}_token_id", None)
        if identifier is not None:
            return int(identifier)
    raise VocabularyError(
        "the tokenizer has no token to put between paragraphs: set its eos_token, sep_token or bos_token"
    )


@dataclass(frozen=True)
class StreamEncoding:
    """Encodes texts into one array; other processes can use it without importing transformers.

    Attributes:
        encode: The function of an `Encoder`.
        separator: The id to append to each text.
        dtype: The type of the array.
    """

    encode: Callable[[list[str]], Iterable[Sequence[int]]]
    separator: int
    dtype: str

    def __call__(self, texts: list[str] | np.ndarray) -> np.ndarray:
        """Return the ids of texts; an array of ids is returned unchanged."""
        if isinstance(texts, np.ndarray):
            return texts
        return np.fromiter(chain.from_iterable((*ids, self.separator) for ids in self.encode(texts)), self.dtype)


@dataclass(frozen=True)
class TokenSplitting:
    """Splits lines into tokens instead of words; can be used in other processes.

    Attributes:
        encode: The function of an `Encoder`.
        names: The tokens by id; if None, the id itself is the name of a token.
    """

    encode: Callable[[list[str]], Iterable[Sequence[int]]]
    names: Sequence[str] | None = None

    def __call__(self, lines: list[str]) -> Iterator[list[str]]:
        """Yield the tokens of each line."""
        for ids in self.encode([make_encodable(line) for line in lines]):
            yield list(map(str, ids)) if self.names is None else [self.names[id] for id in ids]


@dataclass(frozen=True)
class _SlowEncoding:
    """Encodes with a slow tokenizer of transformers."""

    tokenizer: PreTrainedTokenizerBase

    def __call__(self, texts: list[str]) -> Iterable[Sequence[int]]:
        ids: list[list[int]] = self.tokenizer(texts, add_special_tokens=False, verbose=False).input_ids
        return ids


@dataclass(frozen=True)
class _FastEncoding:
    """Encodes with the package tokenizers, in threads.

    Attributes:
        backend: The tokenizer.
        splits_special: Whether a special token that occurs in a text is encoded like other text.
    """

    backend: Tokenizer
    splits_special: bool

    def __call__(self, texts: list[str]) -> Iterable[Sequence[int]]:
        self.backend.encode_special_tokens = self.splits_special  # pickling for another process loses this setting
        return (encoding.ids for encoding in self.backend.encode_batch_fast(texts, add_special_tokens=False))


def encodable_batches(lines: Iterable[str]) -> Iterator[list[str]]:
    """Yield batches of lines, with `make_encodable` applied to each line."""
    remaining = map(make_encodable, lines)
    while batch := list(islice(remaining, _BATCH)):
        yield batch


def used_tokens(tokenizer: PreTrainedTokenizerBase, lines: Iterable[str]) -> set[int]:
    """Return the ids of all tokens that occur in an encoded text."""
    encoder = encoder_of(tokenizer)
    used: set[int] = set()
    for batch in encodable_batches(lines):
        for ids in encoder.encode(batch):
            used.update(ids)
    return used
