"""Text as one stream of tokens: tokenized once, cached on disk, read through a memory map.

Neither the text nor its tokens are ever held in memory, so a corpus may be larger than memory.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path

import numpy as np
from transformers import PreTrainedTokenizerBase

from relexify.errors import InputError
from relexify.processes import map_in_order
from relexify.progress import Advance, track
from relexify.storage.cache import cached_folder
from relexify.storage.fingerprint import fingerprint
from relexify.text import Corpus, count_bytes, make_encodable
from relexify.tokens import Encoder, encoder_of, separator_of

__all__ = ["PackedText", "pack"]

TOKENS_FILE, SUMMARY_FILE = "tokens.bin", "packed.json"
_BATCH_BYTES = 1_000_000
"""Bytes of text that are tokenized at once."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class PackedText:
    """A corpus as one stream of tokens.

    Attributes:
        tokens: The ids of all paragraphs, one after the other: a read-only memory map.
        separator: The id that ends every paragraph.
        paragraphs: Number of paragraphs.
        bytes: UTF-8 bytes of their text, and one more for every separator.
        left_out: Number of paragraphs that were left out because they are in the held-out text.
        name: Fingerprint of text, tokenizer and separator; the same name means the same tokens.
    """

    tokens: np.ndarray
    separator: int
    paragraphs: int
    bytes: int
    left_out: int
    name: str

    def __len__(self) -> int:
        return len(self.tokens)

    def blocks(self, length: int) -> int:
        """Return the number of blocks of `length` tokens, each with one more token after it as its last label.

        Block `i` is `tokens[i * length : (i + 1) * length + 1]`.

        Raises:
            InputError: The length is less than one.
        """
        if length < 1:
            raise InputError(f"blocks of {length} tokens are not possible: give a length of one or more")
        return (len(self.tokens) - 1) // length


@dataclass
class _Summary:
    """Counts of the tokens in a file, written next to them; as in `PackedText`."""

    dtype: str
    separator: int
    tokens: int = 0
    paragraphs: int = 0
    bytes: int = 0
    left_out: int = 0


def pack(corpus: Corpus, tokenizer: PreTrainedTokenizerBase, *, excluding: Corpus | None = None) -> PackedText:
    """Tokenize a corpus into one stream, or find the stream in the cache.

    Args:
        corpus: The text.
        tokenizer: The tokenizer; it is not changed.
        excluding: Held-out text, whose paragraphs are left out of the corpus.

    Raises:
        InputError: The text cannot be read, or it is empty.
        OutputError: The tokens cannot be written.
        VocabularyError: The tokenizer has no token to end a paragraph with.
    """
    encoder, separator = encoder_of(tokenizer), separator_of(tokenizer)
    key = {"corpus": corpus, "excluding": excluding, "tokenizer": encoder.identity, "separator": separator}
    highest = max(tokenizer.get_vocab().values())
    dtype = "<u2" if highest <= np.iinfo(np.uint16).max else "<u4"
    path = cached_folder(
        "packed-text", key, lambda folder: _write(folder, corpus, encoder, _Summary(dtype, separator), excluding)
    )
    summary = _Summary(**json.loads((path / SUMMARY_FILE).read_bytes()))
    tokens = np.memmap(path / TOKENS_FILE, summary.dtype, "r")
    return PackedText(tokens, separator, summary.paragraphs, summary.bytes, summary.left_out, fingerprint(key))


def _write(folder: Path, corpus: Corpus, encoder: Encoder, summary: _Summary, excluding: Corpus | None) -> None:
    """Fill a folder with the tokens of a corpus and their summary."""
    held_out = frozenset(_digest(make_encodable(line)) for line in _read(excluding)) if excluding else frozenset()
    tokenize = _Tokenize(encoder.encode, summary.separator, summary.dtype)
    with open(folder / TOKENS_FILE, "wb") as stream, track("packing text", corpus.size()) as advance:
        for tokens in map_in_order(tokenize, _batches(corpus, held_out, summary, advance)):
            stream.write(tokens.data)
            summary.tokens += len(tokens)
    if excluding is not None and not summary.paragraphs:
        raise InputError(
            f"{corpus.name} has no text but that of {excluding.name}: give other text to train on or to hold out"
        )
    if summary.tokens == summary.paragraphs:  # nothing but separators
        raise InputError(f"the tokenizer finds no tokens in {corpus.name}: give text in a script that it knows")
    if excluding is not None and summary.left_out:
        logger.info("%d paragraphs of %s were left out: %s has them", summary.left_out, corpus.name, excluding.name)
    (folder / SUMMARY_FILE).write_text(json.dumps(asdict(summary)))


@dataclass(frozen=True)
class _Tokenize:
    """Returns the tokens of texts, each with the separator after it."""

    encode: Callable[[list[str]], Iterable[Sequence[int]]]
    separator: int
    dtype: str

    def __call__(self, texts: list[str]) -> np.ndarray:
        ids = chain.from_iterable((*ids, self.separator) for ids in self.encode(texts))
        return np.fromiter(ids, self.dtype)


def _batches(corpus: Corpus, held_out: frozenset[bytes], summary: _Summary, advance: Advance) -> Iterator[list[str]]:
    """Yield the paragraphs to keep, about a megabyte at a time, so that long ones do not fill the memory."""
    texts: list[str] = []
    size = 0
    for line in _read(corpus):
        text = make_encodable(line)
        length = count_bytes(text) + 1  # with the line break
        size += length
        if held_out and _digest(text) in held_out:
            summary.left_out += 1
        else:
            texts.append(text)
            summary.paragraphs += 1
            summary.bytes += length
        if size >= _BATCH_BYTES:
            yield texts
            advance(size)
            texts, size = [], 0
    if texts:
        yield texts
    advance(size)


def _read(corpus: Corpus) -> Iterator[str]:
    """Yield the paragraphs; a failure to read must not be reported as a failure to write the cache."""
    try:
        yield from corpus
    except OSError as error:
        raise InputError(f"{corpus.name} cannot be read to its end ({error}): check it, and try again") from error


def _digest(paragraph: str) -> bytes:
    """Return 16 bytes that identify a held-out paragraph, so that not all of them must be held in memory."""
    return hashlib.blake2b(paragraph.strip().encode(), digest_size=16).digest()
