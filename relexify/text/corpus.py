"""A corpus: text in one language, read as often as needed, never held in memory."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from relexify.errors import InputError
from relexify.text.opening import describe, find_sources
from relexify.text.sources import Lines, Source

__all__ = ["Corpus", "Part"]


@dataclass(frozen=True)
class Part:
    """One side of a split.

    Attributes:
        every: One document in so many is held out.
        held_out: Whether this is the held-out side.
    """

    every: int
    held_out: bool


@dataclass(frozen=True)
class Corpus:
    """Text in one language, read as often as needed, never held in memory.

    Iterating yields one paragraph at a time: a line without its newline, blank ones left out.

    Attributes:
        sources: Where the text comes from, in order.
        parts: The sides taken in the splits so far; none for the whole.
    """

    sources: tuple[Source, ...]
    parts: tuple[Part, ...] = ()

    @classmethod
    def open(
        cls,
        source: str | Path | Iterable[str | Path] | Iterable[Mapping[str, object]] | Corpus,
        *,
        text_field: str = "text",
    ) -> Corpus:
        """Open files or a data set; nothing is read before it is needed.

        Args:
            source: A path, a folder, a glob pattern, a Hub data set (`hf:NAME`, `hf:NAME:CONFIG` or
                `hf:NAME:CONFIG:SPLIT`), several of these, a `datasets` object, or a corpus, which is given back.
                Files are text, json lines or parquet, the first two also compressed (gz, xz, bz2, zst).
            text_field: The field or column with the text, for records.

        Raises:
            InputError: Nothing is there, or it is none of these.
        """
        return source if isinstance(source, Corpus) else cls(find_sources(source, text_field))

    @classmethod
    def of_lines(cls, lines: Sequence[str] | Callable[[], Iterable[str]]) -> Corpus:
        """Make a corpus of text in memory, or of a function that gives the text anew each time.

        Raises:
            InputError: The lines are a single text, or can be read only once.
        """
        if isinstance(lines, str) or not (callable(lines) or isinstance(lines, Sequence)):
            raise InputError(f"lines cannot be taken from {describe(lines)}: give a list of texts or a function")
        return cls((Lines(lines),))

    @property
    def name(self) -> str:
        """What messages call it: its only source, or the first and how many more."""
        first, more = self.sources[0].name, len(self.sources) - 1
        return f"{first} and {more} more" if more else first

    def __iter__(self) -> Iterator[str]:
        """Yield the paragraphs in order.

        Raises:
            InputError: A source cannot be read, or there is no text at all.
        """
        empty = True
        for source in self.sources:
            for document in source.documents():
                if self.parts and not self._holds(document):
                    continue
                for line in _lines(document):
                    empty = False
                    yield line
        if empty:
            raise InputError(self._no_text())

    def split(self, every: int = 100) -> tuple[Corpus, Corpus]:
        """Split into a training and a held-out side, about one document in `every` held out.

        A hash of a document's text decides, so equal documents fall on the same side, wherever they stand, and the
        sides never change as a corpus grows. A document is a line of a text file, or the text of a whole record.
        """
        if every < 2:
            raise InputError(f"one document in {every} cannot be held out: give a number of two or more")
        training, held_out = (Corpus(self.sources, (*self.parts, Part(every, side))) for side in (False, True))
        return training, held_out

    def ensure_text(self) -> Corpus:
        """Give the corpus back if it holds any text.

        Raises:
            InputError: It is empty or its beginning cannot be read.
        """
        next(iter(self))
        return self

    def fingerprint(self) -> str:
        """The sha256 of the content, whatever the files are called; for one whole text file, that of the file."""
        return self._fingerprint

    def size(self) -> int | None:
        """The bytes of text, or None where they cannot be told without reading; for a side of a split, its share."""
        sizes = [source.size() for source in self.sources]
        if None in sizes:
            return None
        share = 1.0
        for part in self.parts:
            share *= 1 / part.every if part.held_out else 1 - 1 / part.every
        return round(share * sum(size or 0 for size in sizes))

    def sample_bytes(self, limit: int) -> str:
        r"""The first paragraphs that fit into so many bytes of UTF-8, joined by `\n`.

        Only a first paragraph that is too long by itself is cut, and then between two letters.
        """
        taken: list[str] = []
        left = limit
        for line in self:
            encoded = line.encode("utf-8", "replace")
            if len(encoded) > left:
                return "\n".join(taken) if taken else encoded[:limit].decode("utf-8", "ignore")
            taken.append(line)
            left -= len(encoded) + 1
        return "\n".join(taken)

    @cached_property
    def _fingerprint(self) -> str:
        prints = [source.fingerprint() for source in self.sources]
        if len(prints) == 1 and not self.parts:
            return prints[0]
        return hashlib.sha256("\n".join([*prints, *map(repr, self.parts)]).encode()).hexdigest()

    def _holds(self, document: str) -> bool:
        """Whether a document is on this side of every split."""
        encoded = document.strip().encode("utf-8", "surrogatepass")
        for depth, part in enumerate(self.parts):
            # The depth keeps a split of a split from cutting where the first one did.
            digest = hashlib.blake2b(encoded, digest_size=8, salt=depth.to_bytes(2, "little")).digest()
            if (int.from_bytes(digest, "little") % part.every == 0) != part.held_out:
                return False
        return True

    def _no_text(self) -> str:
        """Say why nothing was found."""
        if self.parts and self.parts[-1].held_out:
            every = self.parts[-1].every
            return f"{self.name} is too small to hold out one line in {every}: give more text, or hold out more of it"
        if self.size() == 0:
            return f"{self.name} is empty (0 bytes): give a file with text in it"
        return f"{self.name} holds no text, only blank lines: give a file with text in it"


def _lines(document: str) -> Iterable[str]:
    """The lines of a document that are not blank."""
    if "\n" not in document:
        return () if not document or document.isspace() else (document,)
    lines = document.replace("\r\n", "\n").split("\n")
    return (line for line in lines if line and not line.isspace())
