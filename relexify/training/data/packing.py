"""Text as one stream of tokens: tokenized once, cached on disk, read through a memory map.

Neither the text nor its tokens are ever held in memory, so a corpus may be larger than memory.
"""

from __future__ import annotations

import json
import logging
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path

import numpy as np
from transformers import PreTrainedTokenizerBase

from relexify.errors import InputError, OutputError
from relexify.processes import map_in_order
from relexify.progress import ONCE, Advance, track
from relexify.storage.cache import cached_folder, entry_path
from relexify.storage.fingerprint import fingerprint
from relexify.storage.shards import Shards
from relexify.text import Corpus, count_bytes, make_encodable, paragraph_digest
from relexify.tokens import StreamEncoding, encoder_of, separator_of

__all__ = ["PackedText", "pack", "pack_share"]

TOKENS_FILE, SUMMARY_FILE = "tokens.bin", "packed.json"
_BATCH_BYTES = 1_000_000
"""Bytes of text that are tokenized at once."""
_SHARD = 16
"""Batches in a shard: the unit of work that processes, possibly on several hosts, divide among themselves."""
_KIND, _REVISION = "packed-text", 2

logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class PackedText:
    """A corpus as one stream of tokens.

    Attributes:
        tokens: The ids of all paragraphs, one after the other: a read-only memory map.
        separator: The id that ends every paragraph.
        paragraphs: Number of paragraphs.
        bytes: UTF-8 bytes of their text, plus one for each separator.
        left_out: Number of paragraphs that were left out because the held-out text has them.
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
        """Return the number of blocks of `length` tokens; the token after a block is its last label.

        Block `i` is `tokens[i * length : (i + 1) * length + 1]`.

        Raises:
            InputError: The length is less than one.
        """
        if length < 1:
            raise InputError(f"blocks of {length} tokens are not possible: give a length of one or more")
        return (len(self.tokens) - 1) // length


@dataclass
class _Summary:
    """The counts of a `PackedText`, written next to its tokens."""

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
        excluding: Held-out text; its paragraphs are left out of the corpus.

    Raises:
        InputError: The text cannot be read, or it is empty.
        OutputError: The tokens cannot be written.
        VocabularyError: The tokenizer has no token to end a paragraph with.
    """
    plan = _make_plan(corpus, tokenizer, excluding)
    path = cached_folder(_KIND, plan.key, lambda folder: _write(folder, plan))
    plan.shards.remove()
    summary = _Summary(**json.loads((path / SUMMARY_FILE).read_bytes()))
    tokens = np.memmap(path / TOKENS_FILE, summary.dtype, "r")
    name = fingerprint(plan.key)
    return PackedText(tokens, summary.separator, summary.paragraphs, summary.bytes, summary.left_out, name)


def pack_share(
    corpus: Corpus, tokenizer: PreTrainedTokenizerBase, *, excluding: Corpus | None = None, rank: int, ranks: int
) -> None:
    """Tokenize the share of one of several processes, which may run on several hosts with a common cache.

    Every process reads the whole text, and tokenizes each `ranks`-th shard of it into a file in the cache. When all
    have finished, one of them calls `pack`, which joins the shards and tokenizes missing shards itself. Therefore, a
    killed process, another number of processes, or hosts without a common cache change only the time. The first shard
    is always left to `pack`, so that nothing is written for a small text.

    Args:
        corpus: As for `pack`.
        tokenizer: As for `pack`.
        excluding: As for `pack`.
        rank: The number of this process, from 0.
        ranks: The number of processes.

    Raises:
        InputError: The text cannot be read, or it is empty.
        VocabularyError: The tokenizer has no token to end a paragraph with.
    """
    plan = _make_plan(corpus, tokenizer, excluding)
    with suppress(OSError):  # the cache cannot be searched
        if entry_path(_KIND, plan.key).exists():
            return
    numbers: deque[int] = deque()

    def own_batches() -> Iterator[list[str]]:
        for number, shard in _iterate_shards(_iterate_batches(plan, _Summary("", 0), lambda size, status="": None)):
            if number and number % ranks == rank and plan.read_shard(number) is None:
                for texts in shard:
                    numbers.append(number)
                    yield texts

    tokenized = ((numbers.popleft(), tokens) for tokens in map_in_order(plan.tokenize, own_batches()))
    try:
        for number, parts in groupby(tokenized, key=itemgetter(0)):
            plan.write_shard(number, np.concatenate([tokens for _, tokens in parts]))
    except OutputError as error:  # the cache cannot be written; `pack` will report it
        logger.debug("no shards of packed text are kept (%s)", error)


@dataclass(frozen=True)
class _Plan:
    """A text, how to tokenize it, and where to write the tokens.

    Attributes:
        corpus: The text.
        excluding: Held-out text.
        tokenize: Tokenizes a batch.
        key: Everything that the tokens depend on.
        shards: Shards of tokens that several processes have written.
    """

    corpus: Corpus
    excluding: Corpus | None
    tokenize: StreamEncoding
    key: Mapping[str, object]
    shards: Shards

    def write_shard(self, number: int, tokens: np.ndarray) -> None:
        """Write the tokens of a shard."""
        self.shards.write(f"{number:06}", tokens.tobytes())

    def read_shard(self, number: int) -> np.ndarray | None:
        """Return the tokens of a shard; None if it is missing or damaged."""
        tokens = self.shards.read(f"{number:06}")
        return None if tokens is None else np.frombuffer(tokens, self.tokenize.dtype)


def _make_plan(corpus: Corpus, tokenizer: PreTrainedTokenizerBase, excluding: Corpus | None) -> _Plan:
    encoder, separator = encoder_of(tokenizer), separator_of(tokenizer)
    key = {
        "revision": _REVISION,
        "corpus": corpus,
        "excluding": excluding,
        "tokenizer": encoder.identity,
        "separator": separator,
    }
    highest = max(tokenizer.get_vocab().values())
    dtype = "<u2" if highest <= np.iinfo(np.uint16).max else "<u4"
    tokenize = StreamEncoding(encoder.encode, separator, dtype)
    shards = Shards(entry_path(f"{_KIND}-shards", {**key, "batches": _SHARD, "bytes": _BATCH_BYTES}))
    return _Plan(corpus, excluding, tokenize, key, shards)


def _write(folder: Path, plan: _Plan) -> None:
    """Fill a folder with the tokens of a corpus and their summary."""
    corpus, excluding = plan.corpus, plan.excluding
    summary = _Summary(plan.tokenize.dtype, plan.tokenize.separator)

    def untokenized(batches: Iterable[list[str]]) -> Iterator[list[str] | np.ndarray]:
        """Yield the tokens of each shard that was written, and the batches of each missing shard."""
        for number, shard in _iterate_shards(batches):
            tokens = plan.read_shard(number)
            if tokens is None:
                yield from shard
            else:
                yield tokens

    with open(folder / TOKENS_FILE, "wb") as stream, track("packing text", corpus.size()) as advance:
        for tokens in map_in_order(plan.tokenize, untokenized(_iterate_batches(plan, summary, advance))):
            stream.write(tokens.data)
            summary.tokens += len(tokens)
    if excluding is not None and not summary.paragraphs:
        raise InputError(
            f"all text of {corpus.name} is also in {excluding.name}: give other text to train on or to hold out"
        )
    if summary.tokens == summary.paragraphs:  # nothing but separators
        raise InputError(f"the tokenizer finds no tokens in {corpus.name}: give text in a script that it knows")
    if excluding is not None and summary.left_out:
        logger.info(
            "%d paragraphs of %s were left out, because %s has them too",
            summary.left_out,
            corpus.name,
            excluding.name,
            extra=ONCE,
        )
    (folder / SUMMARY_FILE).write_text(json.dumps(asdict(summary)))


def _iterate_batches(plan: _Plan, summary: _Summary, advance: Advance) -> Iterator[list[str]]:
    """Yield the paragraphs to keep, in batches of about a megabyte, so that long paragraphs do not fill the memory."""
    excluding = _read(plan.excluding) if plan.excluding else ()
    held_out = frozenset(paragraph_digest(make_encodable(line)) for line in excluding)
    texts: list[str] = []
    size = 0
    for line in _read(plan.corpus):
        text = make_encodable(line)
        length = count_bytes(text) + 1  # with the line break
        size += length
        if held_out and paragraph_digest(text) in held_out:
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


def _iterate_shards(batches: Iterable[list[str]]) -> Iterator[tuple[int, Iterator[list[str]]]]:
    """Yield the number of each shard and its batches; batches that the caller skips are still read and counted."""
    for number, shard in groupby(enumerate(batches), key=lambda batch: batch[0] // _SHARD):
        yield number, (texts for _, texts in shard)


def _read(corpus: Corpus) -> Iterator[str]:
    """Yield the paragraphs; a failure to read must not be reported as a failure to write the cache."""
    try:
        yield from corpus
    except OSError as error:
        raise InputError(f"{corpus.name} cannot be read to its end ({error}): check it, and try again") from error
