"""Text as one stream of tokens: tokenised once, kept on the disk, read by memory map.

Neither the text nor its tokens are ever held in memory, so a corpus may be larger than it. What is kept is named by
what goes into it (contents, not paths), so that the same text and tokenizer find the same tokens.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from relexify.errors import InputError, OutputError
from relexify.progress import Advance, track
from relexify.storage.cache import cache_folder
from relexify.storage.files import write_folder
from relexify.text import Corpus
from relexify.tokens import Encoder, encoder_of, make_encodable, separator_of

__all__ = ["PackedText", "pack"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class PackedText:
    """A corpus as one stream of tokens.

    Attributes:
        tokens: The ids of all paragraphs, one after the other: a read-only memory map.
        separator: The id that ends every paragraph.
        paragraphs: How many there are.
        bytes: UTF-8 bytes of their text, and one more for every separator.
        left_out: Paragraphs that were left out, because the held-out text has them.
        name: What it is kept under; the same name means the same tokens.
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
        """How many blocks of `length` tokens it has, each with one more token after it as its last label.

        Block `i` is `tokens[i * length : (i + 1) * length + 1]`.

        Raises:
            InputError: The length is less than one.
        """
        if length < 1:
            raise InputError(f"blocks of {length} tokens are not possible: give a length of one or more")
        return (len(self.tokens) - 1) // length


def pack(corpus: Corpus, tokenizer: Any, *, excluding: Corpus | None = None, folder: Path | None = None) -> PackedText:
    """Tokenise a corpus into one stream, or find the stream that an earlier run kept.

    Args:
        corpus: The text.
        tokenizer: A transformers tokenizer; it is not changed.
        excluding: Held-out text, whose paragraphs are left out wherever the corpus has them too.
        folder: Where streams are kept; `packed` in the cache folder by default.

    Raises:
        InputError: The text cannot be read, or there is none.
        OutputError: The tokens cannot be written.
        VocabularyError: The tokenizer has no token to end a paragraph with.
    """
    encoder, separator = encoder_of(tokenizer), separator_of(tokenizer)
    name = _name(corpus, excluding, encoder, separator)
    path = (folder or cache_folder() / "packed") / name
    found = _kept(path)
    if found is not None:
        return found
    highest = max(tokenizer.get_vocab().values())
    summary = _Summary("<u2" if highest <= np.iinfo(np.uint16).max else "<u4", separator)
    try:
        with write_folder(path, internal=True) as beside:
            _write(beside, corpus, encoder, summary, excluding)
    except OutputError:
        # Another process may have put the same tokens there first.
        found = _kept(path)
        if found is None:
            raise
        return found
    if excluding is not None and summary.left_out:
        logger.info("%d paragraphs of %s were left out: %s has them", summary.left_out, corpus.name, excluding.name)
    return _load(path)


def _name(corpus: Corpus, excluding: Corpus | None, encoder: Encoder, separator: int) -> str:
    """A short name that changes whenever the tokens do."""
    inputs = {
        "format": _FORMAT,
        "corpus": corpus.fingerprint(),
        "excluding": None if excluding is None else excluding.fingerprint(),
        "tokenizer": encoder.identity,
        "separator": separator,
    }
    return _digest(json.dumps(inputs, sort_keys=True))[:32]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass
class _Summary:
    """What is known of the tokens in a file, and written beside them; as in `PackedText`, but for the type of an id."""

    dtype: str
    separator: int
    tokens: int = 0
    paragraphs: int = 0
    bytes: int = 0
    left_out: int = 0


def _write(folder: Path, corpus: Corpus, encoder: Encoder, summary: _Summary, excluding: Corpus | None) -> None:
    """Fill a folder with the tokens and with what is known of them, which is counted on the way."""
    held_out = frozenset[bytes]() if excluding is None else _digests(excluding)
    with open(folder / _TOKENS, "wb") as stream, track("packing text", corpus.size()) as advance:
        for texts in _batches(corpus, held_out, summary, advance):
            ids = chain.from_iterable((*ids, summary.separator) for ids in encoder.encode(texts))
            tokens = np.fromiter(ids, summary.dtype)
            stream.write(tokens.data)
            summary.tokens += len(tokens)
    _check_text(summary, corpus, excluding)
    (folder / _SUMMARY).write_text(json.dumps(asdict(summary)))


def _batches(corpus: Corpus, held_out: frozenset[bytes], summary: _Summary, advance: Advance) -> Iterator[list[str]]:
    """Yield the paragraphs to keep, about a megabyte at a time, so that long ones do not fill the memory."""
    texts: list[str] = []
    size = 0
    for line in _read(corpus):
        text, length = make_encodable(line)
        size += length + 1
        if held_out and _digest_of(text) in held_out:
            summary.left_out += 1
        else:
            texts.append(text)
            summary.paragraphs += 1
            summary.bytes += length + 1
        if size >= _BATCH_BYTES:
            yield texts
            advance(size)
            texts, size = [], 0
    if texts:
        yield texts
    advance(size)


def _read(corpus: Corpus) -> Iterator[str]:
    """The paragraphs; what fails while they are read is not taken for a failure to write."""
    try:
        yield from corpus
    except OSError as error:
        raise InputError(f"{corpus.name} cannot be read to its end ({error}): check it, and try again") from error


def _digests(corpus: Corpus) -> frozenset[bytes]:
    """What to know held-out paragraphs by, without holding them in memory."""
    return frozenset(_digest_of(make_encodable(line)[0]) for line in _read(corpus))


def _digest_of(paragraph: str) -> bytes:
    return hashlib.blake2b(paragraph.strip().encode(), digest_size=16).digest()


def _check_text(summary: _Summary, corpus: Corpus, excluding: Corpus | None) -> None:
    if excluding is not None and not summary.paragraphs:
        raise InputError(
            f"{corpus.name} has no text but that of {excluding.name}: give other text to train on or to hold out"
        )
    if summary.tokens == summary.paragraphs:
        raise InputError(f"the tokenizer finds no tokens in {corpus.name}: give text in a script that it knows")


def _kept(path: Path) -> PackedText | None:
    """What an earlier run kept, unless it is damaged."""
    if not path.exists():
        return None
    try:
        found = _load(path)
    except InputError as error:
        logger.warning("packed text: what an earlier run kept is damaged, and made anew (%s)", error)
        return None
    logger.info("packed text: kept from an earlier run (%s)", path)
    return found


def _load(path: Path) -> PackedText:
    """Map the tokens of a folder.

    Raises:
        InputError: It is not as it was written.
    """
    try:
        summary = _Summary(**json.loads((path / _SUMMARY).read_bytes()))
        tokens = np.memmap(path / _TOKENS, summary.dtype, "r")
    except (OSError, ValueError, TypeError) as error:
        raise InputError(f"{path} cannot be read as packed text ({error}): remove it") from error
    if len(tokens) != summary.tokens:
        raise InputError(f"{path / _TOKENS} holds {len(tokens)} tokens, not {summary.tokens}: remove it")
    return PackedText(tokens, summary.separator, summary.paragraphs, summary.bytes, summary.left_out, name=path.name)


_FORMAT = 1
_TOKENS, _SUMMARY = "tokens.bin", "packed.json"
_BATCH_BYTES = 1_000_000
