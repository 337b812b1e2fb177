"""A corpus: text in one language that can be read repeatedly and is never held in memory."""

from __future__ import annotations

import hashlib
import logging
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Annotated
from zlib import crc32

from relexify.errors import InputError
from relexify.storage.files import format_size
from relexify.storage.revisions import SAMPLES
from relexify.text.encodable import count_bytes
from relexify.text.opening import describe_type, find_sources
from relexify.text.sources import Lines, Source, TextFile

__all__ = [
    "HELD_OUT_EVERY",
    "Corpus",
    "NamesText",
    "NoText",
    "Part",
    "TextOption",
    "TextSource",
    "paragraph_digest",
    "sample_revisions",
]

logger = logging.getLogger(__name__)

HELD_OUT_EVERY = 100
"""If no held-out text is given, one line in this many is held out of the corpus."""
_MOST_COUNTED = 50_000_000
"""Excluded lines are counted in at most this many bytes of text, which takes seconds."""


class NoText(InputError):
    """A corpus can be read, but contains no text."""


@dataclass(frozen=True)
class _Identity:
    """The fingerprint of a corpus, and size and time of change of its files when it was computed."""

    fingerprint: str
    stamps: Mapping[Path, tuple[int, int]]


@dataclass(frozen=True)
class Part:
    """A part of a corpus, selected by a hash of each document's text: one side of a split, or a subsample.

    Attributes:
        slots: Number of slots over which the hash distributes documents.
        first: The first slot of this part.
        end: One more than the last slot of this part.
        salt: Salt of the hash; a different salt gives an independent selection.
        purpose: What the part is for, for the error message if the corpus is too small.
    """

    slots: int
    first: int
    end: int
    salt: bytes
    purpose: str = field(repr=False)

    @property
    def share(self) -> float:
        """The expected share of the text."""
        return (self.end - self.first) / self.slots

    def holds(self, document: bytes) -> bool:
        """Whether a document belongs to this part."""
        digest = hashlib.blake2b(document, digest_size=8, salt=self.salt).digest()
        return self.first <= int.from_bytes(digest, "little") % self.slots < self.end


@dataclass(frozen=True)
class Corpus:
    """Text in one language that can be read repeatedly and is never held in memory.

    Iterating yields one paragraph at a time: a line without its newline; blank lines are skipped.

    Attributes:
        sources: Files, data sets or text in memory, in order.
        parts: The selected parts, each a part of the previous one; empty for the whole text.
        excluded: Texts whose paragraphs are removed from this corpus.
    """

    sources: tuple[Source, ...]
    parts: tuple[Part, ...] = ()
    excluded: tuple[Corpus, ...] = ()

    @classmethod
    def open(cls, source: TextSource, *, text_field: str = "text") -> Corpus:
        """Open files or a data set; they are read only when needed, but files at a URL are downloaded now.

        Args:
            source: A path, a folder, a glob pattern, a URL that fsspec opens (`s3://…`), a Hub data set (`hf:NAME`,
                `hf:NAME:CONFIG` or `hf:NAME:CONFIG:SPLIT`), several of these, a `datasets` object, or a corpus, which
                is returned unchanged.
                Files are text, json lines or parquet; text and json lines may be compressed (gz, xz, bz2, zst).
                `#FIELD` after a name selects the field or column with the text, unless a file has exactly that name.
            text_field: The default field or column with the text.

        Raises:
            InputError: Nothing is found, or the source is of another type.
            MissingExtra: An https URL needs a package that is not installed.
        """
        return source if isinstance(source, Corpus) else cls(find_sources(source, text_field))

    @classmethod
    def from_lines(cls, lines: Sequence[str] | Callable[[], Iterable[str]]) -> Corpus:
        """Create a corpus from lines in memory, or from a function that starts one pass over the lines.

        Raises:
            InputError: The lines are a single string, or can be read only once.
        """
        if isinstance(lines, str) or not (callable(lines) or isinstance(lines, Sequence)):
            raise InputError(f"lines cannot be read from {describe_type(lines)}: give a list of texts or a function")
        return cls((Lines(lines),))

    @property
    def name(self) -> str:
        """A name for messages: the name of the first source, and the number of other sources if there are any."""
        first, more = self.sources[0].name, len(self.sources) - 1
        return f"{first} and {more} more" if more else first

    def __iter__(self) -> Iterator[str]:
        """Yield the paragraphs in order.

        Raises:
            InputError: A source cannot be read, or is no longer what its fingerprint was computed of.
            NoText: The corpus contains no text.
        """
        empty = True
        for source in self.sources:
            for line in self._paragraphs(source):
                empty = False
                yield line
        if "_identity" in vars(self):
            self._check_unchanged()
        if empty:
            # If the corpus has no text even without the selection, these lines raise an error that says so.
            if self.excluded:
                Corpus(self.sources, self.parts).ensure_text()
            elif self.parts:
                Corpus(self.sources).ensure_text()
            raise NoText(self._no_text())

    def split(self, every: int = 100) -> tuple[Corpus, Corpus]:
        """Split into a training and a held-out side, with about one document in `every` held out.

        A hash of its text decides the side of each document. Equal documents are therefore on the same side, and no
        document changes sides when the corpus grows. A document is a line of a text file, or the text of a record.
        """
        if every < 2:
            raise InputError(f"one document in {every} cannot be held out: give a number of two or more")
        salt = self._salt()
        purpose = f"hold out one line in {every}"  # with few lines, one side may be empty
        training, held_out = Part(every, 1, every, salt, purpose), Part(every, 0, 1, salt, purpose)
        return self._part(training), self._part(held_out)

    def without(self, held_out: Corpus) -> Corpus:
        """Remove the paragraphs that also occur in a held-out text, ignoring Unicode form and surrounding white space.

        The held-out text is read together with the corpus. The other side of the same split is not read, because the
        two sides share no document.
        """
        if held_out.sources == self.sources and any(map(_are_disjoint, self.parts, held_out.parts)):
            return self
        return replace(self, excluded=(*self.excluded, held_out))

    def subsample(self, limit: int, seed: int = 0) -> Corpus:
        """Select about `limit` bytes of text (UTF-8, with a newline after each paragraph).

        A hash of its text and the seed decides whether a document is selected. The order of the text therefore does not
        matter, and with the same seed, a larger subsample contains every smaller one. If a subsample and the whole text
        are split, each side of the whole text contains that side of the subsample. The text is read once to measure its
        size.

        Returns:
            The subsample, or the corpus itself if it has at most `limit` bytes.

        Raises:
            InputError: The limit or the seed is out of range, or the text cannot be read.
        """
        if limit < 1:
            raise InputError(f"{limit} bytes cannot be drawn from {self.name}: give a number of one or more")
        if not 0 <= seed < 1 << 64:
            raise InputError(f"`seed={seed}` is not possible: give a number from 0 to 2**64 - 1")
        if limit >= self.text_bytes:
            if limit > self.text_bytes:
                logger.warning(
                    "%s has only %d bytes of text, fewer than the %d requested: all are used",
                    self.name,
                    self.text_bytes,
                    limit,
                )
            return self
        salt = self._salt(b"sample" + seed.to_bytes(8, "little"))
        return self._part(Part(_HASHES, 0, limit * _HASHES // self.text_bytes, salt, f"draw {limit} bytes from it"))

    def bounded(self, limit: int) -> Corpus:
        """Return the corpus if it has at most `limit` bytes of text, and otherwise a subsample of about that size.

        The text is read once to measure its size, unless its files are small enough.
        """
        size = self.size()
        if size is not None and size <= limit:
            return self
        return self.subsample(min(limit, self.text_bytes))

    def ensure_text(self) -> Corpus:
        """Return the corpus if it contains any text.

        Raises:
            InputError: The corpus is empty, or its beginning cannot be read.
        """
        next(iter(self))
        return self

    def ensure_not_held_out(self, held_out: Corpus) -> Corpus:
        """Return the corpus if it has sources besides the held-out text; the texts themselves are not compared.

        Raises:
            InputError: All sources of the corpus are also sources of the held-out text, in whole or in the same part.
        """
        is_held_out = self._resolved_sources() <= held_out._resolved_sources()
        if is_held_out and held_out.parts == self.parts[: len(held_out.parts)]:
            raise InputError(
                f"{self.name} is both the corpus and the held-out text: leave out the held-out text, and one line in "
                f"{HELD_OUT_EVERY} is held out, or give other text"
            )
        return self

    def fingerprint(self) -> str:
        """Return the sha256 of the content, independent of file names; for a single text file, the file's sha256."""
        return self._identity.fingerprint

    def size(self) -> int | None:
        """Return the size of the text in bytes, estimated for a part; None if only reading the text can tell."""
        sizes = [source.size() for source in self.sources]
        if None in sizes:
            return None
        return round(prod(part.share for part in self.parts) * sum(size or 0 for size in sizes))

    def describe(self) -> str:
        """Return the name, with the size if it is known: `text.txt (1.5 MB)`."""
        size = self.size()
        return self.name if size is None else f"{self.name} ({format_size(size)})"

    def describe_left_out(self) -> str:
        """Return a message with the number of paragraphs left out because a held-out text has them; empty if none are.

        Only the beginning of a large corpus is read.
        """
        if not self.excluded:
            return ""
        seen = left_out = size = 0
        for line in replace(self, excluded=()):
            seen, left_out, size = seen + 1, left_out + self._is_excluded(line), size + count_bytes(line)
            if size >= _MOST_COUNTED:
                break
        if not left_out:
            return ""
        of_lines = f"{seen:,} lines" if size < _MOST_COUNTED else f"the first {seen:,} lines"
        are, them = ("is", "it") if left_out == 1 else ("are", "them")
        held_out = " and ".join(text.name for text in self.excluded)
        return f"{left_out:,} of {of_lines} {are} left out, because {held_out} has {them}"

    def sample_bytes(self, limit: int) -> str:
        r"""Return the first paragraphs that fit into `limit` bytes of UTF-8, joined by `\n`.

        If they fill less than half of the limit, the next paragraph is added, truncated between two characters. Without
        this, a corpus with a few short lines before a long document would give only those lines.

        If there are several sources with more text than the limit, each source contributes its first paragraphs in the
        same way, up to an equal share of the limit. The unused rest of a short source's share goes to the others.
        Shares are equal rather than proportional to size, because the size of a compressed file is unknown until it is
        read. A share is at least `_LEAST_SHARE` bytes; if there are too many sources for this, only evenly spaced
        sources contribute.
        """
        sample, has_more = _first_paragraphs(iter(self), limit)
        if has_more and len(self.sources) > 1:
            sample = self._sample_sources(limit)
        return "\n".join(sample)

    def fits(self, limit: int) -> bool:
        """Whether `sample_bytes` returns the whole text; to find out, at most `limit` bytes are read."""
        return not _first_paragraphs(iter(self), limit)[1]

    def sample_throughout(self, limit: int) -> str:
        r"""Return up to `limit` characters in distinct pieces from throughout the text, joined by `\n`."""
        sample: dict[int, str] = {}  # pieces by their hash
        length, every = 0, 1
        for piece in (line[start : start + _PIECE] for line in self for start in range(0, len(line), _PIECE)):
            # Select pieces by their hash, not by their position: two languages may alternate line by line.
            piece_hash = crc32(piece.encode("utf-8", "surrogatepass"))
            if piece_hash % every or piece_hash in sample:
                continue
            sample[piece_hash] = piece
            length += len(piece) + 1
            # When the sample is full, halve the share of pieces that are selected, and drop the others.
            while length > limit and len(sample) > 1:
                every *= 2
                sample = {key: piece for key, piece in sample.items() if key % every == 0}
                length = sum(len(piece) + 1 for piece in sample.values())
        return "\n".join(sample.values())[:limit]

    def _paragraphs(self, source: Source) -> Iterator[str]:
        """Yield the selected paragraphs of a source."""
        for document in source.documents():
            if self.parts:
                encoded = document.strip().encode("utf-8", "surrogatepass")
                if not all(part.holds(encoded) for part in self.parts):
                    continue
            for line in _lines(document):
                if not (self.excluded and self._is_excluded(line)):
                    yield line

    def _sample_sources(self, limit: int) -> list[str]:
        """Return the first paragraphs of each source, up to equal shares of `limit` bytes, in the order of sources."""
        count = len(self.sources)
        share = max(limit // count, min(limit, _LEAST_SHARE))
        least = min(limit, _LEAST_SHARE) / 10  # with fewer bytes left, another source would give only part of a line
        # If there are too many sources, first every n-th one, then the one after each of these, …
        every = -(-count * share // limit)
        order = [index for first in range(every) for index in range(first, count, every)]
        exhausted = -1
        while True:
            sample: dict[int, list[str]] = {}
            left, before, exhausted = limit, exhausted, 0
            for index in order:
                if left < least:
                    break
                paragraphs, has_more = _first_paragraphs(self._paragraphs(self.sources[index]), min(share, left))
                exhausted += not has_more
                if paragraphs:
                    sample[index] = paragraphs
                    left -= sum(count_bytes(line) + 1 for line in paragraphs)
            # If no further source fits into its share, the remaining bytes are less than a paragraph of any source.
            if exhausted == before or left < least:
                return [line for index in sorted(sample) for line in sample[index]]
            share += left // (count - exhausted)

    def _resolved_sources(self) -> set[Source]:
        """Return the sources, with absolute paths."""
        return {
            replace(source, path=source.path.resolve()) if isinstance(source, TextFile) else source
            for source in self.sources
        }

    @cached_property
    def _identity(self) -> _Identity:
        stamps = self._stamps()  # first, so that a change while the files are hashed is noticed too
        prints = [source.fingerprint() for source in self.sources]
        prints += [f"without {text.fingerprint()}" for text in self.excluded]
        if len(prints) == 1 and not self.parts:
            return _Identity(prints[0], stamps)
        joined = "\n".join([*prints, *map(repr, self.parts)])
        return _Identity(hashlib.sha256(joined.encode()).hexdigest(), stamps)

    def _stamps(self) -> Mapping[Path, tuple[int, int]]:
        """Return size and time of change of every file."""
        states = {source.path: source.path.stat() for source in self.sources if isinstance(source, TextFile)}
        return {path: (state.st_size, state.st_mtime_ns) for path, state in states.items()}

    def _check_unchanged(self) -> None:
        """Validate that the text that was just read is the one with the fingerprint: results are cached under that."""
        before, now = self._identity, self._stamps()
        if now == before.stamps:
            return
        del vars(self)["_identity"]
        if self.fingerprint() != before.fingerprint:
            changed = next((path for path in now if now[path] != before.stamps[path]), self.name)
            raise InputError(f"{changed} has changed while it was read: run the command again when it is complete")

    @cached_property
    def _digests(self) -> frozenset[bytes]:
        """The digests of all paragraphs, to exclude them from other texts."""
        return frozenset(map(paragraph_digest, self))

    def _is_excluded(self, paragraph: str) -> bool:
        digest = paragraph_digest(paragraph)
        return any(digest in text._digests for text in self.excluded)

    @cached_property
    def text_bytes(self) -> int:
        """The exact size of the text in bytes, without blank lines and json syntax, which file sizes include."""
        return sum(len(line.encode("utf-8", "surrogatepass")) + 1 for line in self)

    def _part(self, part: Part) -> Corpus:
        return replace(self, parts=(*self.parts, part))

    def _salt(self, selection: bytes = b"") -> bytes:
        """Return a salt that differs at each level of nesting, so that a part of a part is selected independently.

        Args:
            selection: Identifies the selection: empty for a split, the seed for a subsample.
        """
        depth = sum(part.salt[2:] == selection for part in self.parts)
        return depth.to_bytes(2, "little") + selection

    def _no_text(self) -> str:
        """Return an error message for a corpus without text."""
        if self.excluded:
            held_out = " and ".join(text.name for text in self.excluded)
            return f"all text of {self.name} is also in {held_out}: give other text to train on or to hold out"
        if self.parts:
            purpose = self.parts[-1].purpose
            return f"{self.name} has too few different lines to {purpose}: give more text, or use more of it"
        if self.size() == 0:
            return f"{self.name} is empty (0 bytes): give a file with text in it"
        return f"{self.name} has only blank lines: give a file with text in it"


TextSource = str | Path | Iterable[str | Path] | Iterable[Mapping[str, object]] | Corpus
"""Anything that `Corpus.open` accepts: files, data sets of the Hub or in memory, or an open corpus."""


@dataclass(frozen=True)
class NamesText:
    """Marks a field with the name of a text, or a list of names: `Annotated[…, NamesText()]`."""


TextOption = Annotated[str | Path | Sequence[str | Path] | Corpus, NamesText()]
"""The type of an option for text: a name that `Corpus.open` or `Bitext.open` accepts, or an open corpus."""


def sample_revisions(*texts: TextSource | None) -> dict[str, int]:
    """Return the revision of `Corpus.sample_bytes` if any of the texts has several sources; otherwise an empty dict.

    A cached result that depends on `Corpus.sample_bytes`, but whose key is the whole text, adds it to its revisions.
    """
    has_several = any(text is not None and len(Corpus.open(text).sources) > 1 for text in texts)
    return {"samples": SAMPLES} if has_several else {}


def _are_disjoint(one: Part, other: Part) -> bool:
    is_same_hash = (one.slots, one.salt) == (other.slots, other.salt)
    return is_same_hash and (one.end <= other.first or other.end <= one.first)


def paragraph_digest(paragraph: str) -> bytes:
    """Return a digest of 16 bytes that identifies a held-out paragraph; unlike the text, all digests fit in memory.

    Surrounding white space and the Unicode form are ignored: é may be one character or two.
    """
    text = unicodedata.normalize("NFC", paragraph.strip())
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _first_paragraphs(lines: Iterator[str], limit: int) -> tuple[list[str], bool]:
    """Return the first paragraphs that fit into `limit` bytes, as `sample_bytes` does, and whether there are more."""
    sample: list[str] = []
    left = limit
    for line in lines:
        encoded = line.encode("utf-8", "replace")
        if len(encoded) > left:
            if left > limit / 2 and (beginning := encoded[:left].decode("utf-8", "ignore")):
                sample.append(beginning)
            return sample, True
        sample.append(line)
        left -= len(encoded) + 1
    return sample, False


def _lines(document: str) -> Iterable[str]:
    """Return the lines of a document that are not blank."""
    if "\n" not in document:
        return () if not document or document.isspace() else (document,)
    lines = document.replace("\r\n", "\n").split("\n")
    return (line for line in lines if line and not line.isspace())


_HASHES = 1 << 64
_LEAST_SHARE = 1_000
"""The fewest bytes, some lines, that a source contributes to a sample, if it has that many. A choice, not measured."""
_PIECE = 1_000  # characters
