"""Parallel text: sentences and their translations, read as often as needed, never held in memory."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from relexify.errors import InputError
from relexify.evidence.bitext.files import FIELDS, PairFile, open_pair_files

__all__ = ["Bitext"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Bitext:
    """Sentences in the source language, each with its translation.

    Iterating yields (source, target) for every line of the files, in order and without surrounding white space. If one
    side of a line is missing, both sides are empty strings, so that line numbers stay correct.

    Attributes:
        files: The files with the pairs, in order.
        swapped: Whether the files have the target language first.
    """

    files: tuple[PairFile, ...]
    swapped: bool = False

    @classmethod
    def open(
        cls,
        source: str | Path | Iterable[str | Path] | Bitext,
        target: str | Path | None = None,
        *,
        fields: tuple[str, str] = FIELDS,
        swapped: bool = False,
    ) -> Bitext:
        """Open parallel text; nothing is read before it is needed.

        Args:
            source: A file with a tab between sentence and translation, a file of json lines, two files of equal length
                written as one name with braces (`"news.{en,de}.xz"`), or several of these; all may be compressed. A
                `Bitext` is returned unchanged.
            target: The second of two files of equal length, if `source` is the first.
            fields: For json lines: the fields with the two sentences; dots lead into objects (`"translation.en"`).
            swapped: Whether the target language comes first.

        Raises:
            InputError: A file is missing.
        """
        if isinstance(source, Bitext):
            return source
        if target is not None and not isinstance(source, str | Path):
            raise InputError("source must be one path if target is given: open further files in another call")
        return cls(open_pair_files(source, target, fields), swapped)

    @property
    def name(self) -> str:
        """A name for messages: the first file, and the number of other files if there are any."""
        first, more = self.files[0].name, len(self.files) - 1
        return f"{first} and {more} more" if more else first

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Yield the pairs.

        Raises:
            InputError: A line is not a pair, or two files have different lengths.
        """
        for file in self.files:
            for left, right in file.lines():
                source, target = left.strip(), right.strip()
                if not (source and target):
                    yield "", ""
                else:
                    yield (target, source) if self.swapped else (source, target)

    def sample(self, most: int | None) -> tuple[int, Iterator[tuple[str, str]]]:
        """Return the number of sampled lines, and the lines: at most `most`, evenly spread, or all lines if None."""
        lines = self.lines
        wanted = min(most or lines, lines)
        # Line i is chosen if a whole number lies between i · wanted / lines and (i + 1) · wanted / lines.
        chosen = (pair for i, pair in enumerate(self) if (i + 1) * wanted // lines > i * wanted // lines)
        return wanted, chosen

    @property
    def lines(self) -> int:
        """Number of lines."""
        return self._counts[0]

    @property
    def pairs(self) -> int:
        """Number of lines with both sides."""
        return self._counts[1]

    @property
    def characters(self) -> int:
        """Number of characters of all pairs, both sides together."""
        return self._counts[2]

    @cached_property
    def _counts(self) -> tuple[int, int, int]:
        """Numbers of lines, of pairs and of characters; counted once, because the whole text must be read."""
        lines, complete, characters = 0, 0, 0
        for source, target in self:
            lines += 1
            complete += bool(source)
            characters += len(source) + len(target)
        return lines, complete, characters

    def ensure_pairs(self) -> int:
        """Return the number of pairs with both sides.

        Raises:
            InputError: A file cannot be read, or more than half of the lines lack a side.
        """
        lines, complete, _ = self._counts
        if complete * 2 < lines or not complete:
            raise InputError(
                f"{self.name} has {lines:,} lines, of which {lines - complete:,} lack a sentence or its translation: "
                "give one pair on each line, with a tab between the two"
            )
        if complete < lines:
            logger.warning("%s: %d of %d lines lack a side and are skipped", self.name, lines - complete, lines)
        return complete

    def fingerprint(self) -> str:
        """Return the sha256 of the content, independent of the names of the files."""
        prints = [*(file.fingerprint() for file in self.files), str(self.swapped)]
        return hashlib.sha256("\n".join(prints).encode()).hexdigest()
