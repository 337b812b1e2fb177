"""Files with pairs of sentences: two columns, two files of equal length, json lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path
from typing import Protocol

from relexify.errors import InputError
from relexify.storage.files import sha256_of
from relexify.text.decoding import JSON_SUFFIXES, format_suffix, read_blocks
from relexify.text.encodable import make_encodable
from relexify.text.records import parse_record

__all__ = ["FIELDS", "PairFile", "PairedLines", "SideBySide", "open_pair_files"]

FIELDS = ("source", "target")
"""Default fields of json lines."""

_BRACES = re.compile(r"\{([^{},]+),([^{},]+)\}")


class PairFile(Protocol):
    """Yields pairs of sentences; can be read repeatedly."""

    @property
    def name(self) -> str:
        """A name for messages."""

    def lines(self) -> Iterator[tuple[str, str]]:
        """Yield the two sides of every line; blank lines have two empty sides."""

    def fingerprint(self) -> str:
        """Return a hash of the content."""


def open_pair_files(
    source: str | Path | Iterable[str | Path], target: str | Path | None, fields: tuple[str, str]
) -> tuple[PairFile, ...]:
    """Open the files of the given names; arguments as in `Bitext.open`.

    Raises:
        InputError: No file is given, or a file is missing.
    """
    if target is not None and isinstance(source, str | Path):
        return (SideBySide(_existing(Path(source)), _existing(Path(target))),)
    names = [source] if isinstance(source, str | Path) else list(source)
    if not names:
        raise InputError("no parallel text is given: give at least one file")
    return tuple(_open_file(name, fields) for name in names)


@dataclass(frozen=True)
class PairedLines:
    """A text file with a pair on every line: two columns, or a json object.

    Attributes:
        path: The file.
        fields: The fields of the json object that hold the two sides; None for two columns with a tab between them.
            Further columns are ignored.
    """

    path: Path
    fields: tuple[str, str] | None

    @property
    def name(self) -> str:
        """The path."""
        return str(self.path)

    def lines(self) -> Iterator[tuple[str, str]]:
        """Yield the two sides of every line."""
        for number, line in enumerate(_lines(self.path), start=1):
            if not line.strip():
                left, right = "", ""
            elif self.fields is not None:
                location = f"{self.path}, line {number},"
                record = parse_record(line, location)
                left, right = (_field(record, field, location) for field in self.fields)
            elif "\t" in line:
                left, right, *_ = line.split("\t", 2)
            else:
                raise InputError(
                    f"{self.path}, line {number}, has no tab: put a tab between a sentence and its translation, or "
                    "write two files of equal length as one name with braces, such as 'news.{en,de}'"
                )
            yield left, right

    def fingerprint(self) -> str:
        """Return the sha256 of the file, and the names of the fields."""
        return sha256_of(self.path) if self.fields is None else f"{sha256_of(self.path)} {self.fields}"


@dataclass(frozen=True)
class SideBySide:
    """Two text files of equal length: a line of one is the translation of the same line of the other."""

    left: Path
    right: Path

    @property
    def name(self) -> str:
        """Both paths."""
        return f"{self.left} with {self.right}"

    def lines(self) -> Iterator[tuple[str, str]]:
        """Yield the lines side by side."""
        for number, (left, right) in enumerate(zip_longest(_lines(self.left), _lines(self.right))):
            if left is None or right is None:
                short, long = (self.left, self.right) if left is None else (self.right, self.left)
                raise InputError(
                    f"{short} ends after line {number}, but {long} continues: line n of one file must be the "
                    "translation of line n of the other"
                )
            yield left, right

    def fingerprint(self) -> str:
        """Return the sha256 of both files, in order."""
        return f"{sha256_of(self.left)} {sha256_of(self.right)}"


def _open_file(name: str | Path, fields: tuple[str, str]) -> PairFile:
    path = Path(name).expanduser()
    braces = _BRACES.search(str(path))
    if braces and not path.exists():
        before, after = str(path)[: braces.start()], str(path)[braces.end() :]
        left, right = (_existing(Path(f"{before}{side}{after}")) for side in braces.groups())
        return SideBySide(left, right)
    return PairedLines(path, fields if format_suffix(_existing(path)) in JSON_SUFFIXES else None)


def _existing(path: Path) -> Path:
    path = path.expanduser()
    if not path.is_file():
        problem = "is a folder" if path.is_dir() else "does not exist"
        raise InputError(
            f"{path} {problem}: give a file with sentence<TAB>translation on each line, or two files as "
            "'news.{en,de}'"
        )
    return path


def _lines(path: Path) -> Iterator[str]:
    return chain.from_iterable(read_blocks(path))


def _field(record: object, field: str, location: str) -> str:
    """Return the text of a field; dots lead into objects, null is an empty text."""
    value = record
    for key in field.split("."):
        if not isinstance(value, dict) or key not in value:
            found = ", ".join(sorted(value)) if isinstance(value, dict) else f"a {type(value).__name__}"
            raise InputError(f"{location} has no field {field!r}, only {found}: name the two fields with the sentences")
        value = value[key]
    if not isinstance(value, str | None):
        raise InputError(f"{location} has a {type(value).__name__} in the field {field!r}: name a field with text")
    return make_encodable(value or "")
