"""Sources of text: files of lines, files of records, data sets, and text in memory.

Each source yields documents (a line of a text file, the text of a record), and can be read any number of times. Lone
surrogates are replaced, so every tokenizer accepts the text; only text in memory and json escapes can contain them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, Protocol

from relexify.errors import InputError, importing
from relexify.storage.files import sha256_of
from relexify.text.decoding import compression_of, read_blocks
from relexify.text.encodable import make_encodable
from relexify.text.records import open_hub_data_set, read_json_lines

__all__ = ["DataSet", "HubDataSet", "JsonLines", "Lines", "Parquet", "Source", "TextFile"]


class Source(Protocol):
    """Yields documents; can be read repeatedly."""

    @property
    def name(self) -> str:
        """A name for messages."""

    def documents(self) -> Iterator[str]:
        """Yield the documents in order; a document may have any number of lines, including none."""

    def fingerprint(self) -> str:
        """Return the sha256 of the content, in hex."""

    def size(self) -> int | None:
        """Return the size of the text in bytes; None if only reading the text can tell."""


@dataclass(frozen=True)
class TextFile:
    """A file whose documents are its lines."""

    path: Path

    @property
    def name(self) -> str:
        """The path."""
        return str(self.path)

    def documents(self) -> Iterator[str]:
        """Yield the lines."""
        for lines in read_blocks(self.path):
            yield from lines

    def fingerprint(self) -> str:
        """Return the sha256 of the file, as `sha256sum` prints it."""
        return sha256_of(self.path)

    def size(self) -> int | None:
        """Return the size of the file in bytes; None if it is compressed."""
        return None if compression_of(self.path) else self.path.stat().st_size


@dataclass(frozen=True)
class JsonLines(TextFile):
    """A file with one json object per line; the documents are the values of one field."""

    field: str

    def documents(self) -> Iterator[str]:
        """Yield the texts of the records."""
        for location, record in read_json_lines(self.path):
            yield _text_of(record, self.field, location)

    def fingerprint(self) -> str:
        """Return a hash of the file's content and the name of the field."""
        return _digest([sha256_of(self.path), self.field])


@dataclass(frozen=True)
class Parquet(TextFile):
    """A parquet file; the documents are the values of one column."""

    field: str

    def documents(self) -> Iterator[str]:
        """Yield the texts of the rows."""
        with importing("pyarrow", f"reading {self.path}", "corpora"):
            from pyarrow import ArrowException
            from pyarrow.parquet import ParquetFile
        try:
            with ParquetFile(self.path) as file:
                columns = [self.field] if self.field in file.schema_arrow.names else None
                batches = file.iter_batches(batch_size=1024, columns=columns)
                records = chain.from_iterable(batch.to_pylist() for batch in batches)
                for row, record in enumerate(records, start=1):
                    yield _text_of(record, self.field, f"{self.path}, row {row},")
        except (ArrowException, OSError, ValueError) as error:  # ValueError: text that is not UTF-8
            raise InputError(f"{self.path} is a damaged parquet file ({error}): download or write it again") from error

    def fingerprint(self) -> str:
        """Return a hash of the file's content and the name of the column."""
        return _digest([sha256_of(self.path), self.field])


@dataclass(frozen=True, eq=False)
class DataSet:
    """A `Dataset` or `IterableDataset` of the package datasets."""

    records: Any
    field: str
    name: str = "the data set"

    def documents(self) -> Iterator[str]:
        """Yield the texts of the records."""
        for number, record in enumerate(self.records, start=1):
            yield _text_of(record, self.field, f"{self.name}, record {number},")

    def fingerprint(self) -> str:
        """Return a hash of the data set's own fingerprint; for a stream, of its `repr` and its first records."""
        fingerprint = getattr(self.records, "_fingerprint", None)
        content = [fingerprint] if fingerprint else [repr(self.records), *islice(self.documents(), 100)]
        return _digest([*content, self.field])

    def size(self) -> None:
        """Return None: the size is unknown."""


@dataclass(frozen=True)
class HubDataSet:
    """A data set of the Hub, streamed."""

    path: str
    config: str | None
    split: str
    field: str

    @property
    def name(self) -> str:
        """Its name in the form `hf:NAME:CONFIG:SPLIT`."""
        return ":".join(["hf", self.path, self.config or "", self.split])

    def documents(self) -> Iterator[str]:
        """Yield the texts of the records."""
        return self._open().documents()

    def fingerprint(self) -> str:
        """Return the sha256 of its name, its description and its first records."""
        return _digest([self.path, self.config or "", self.split, self._open().fingerprint()])

    def size(self) -> None:
        """Return None: the size is unknown."""

    def _open(self) -> DataSet:
        records = open_hub_data_set(self.name, streaming=True)
        return DataSet(records, self.field, self.name)


@dataclass(frozen=True, eq=False)
class Lines:
    """Text in memory, or a function that starts one pass over a text."""

    lines: Sequence[str] | Callable[[], Iterable[str]]
    name: str = "the given text"

    def documents(self) -> Iterator[str]:
        """Yield the texts."""
        return map(make_encodable, self.lines() if callable(self.lines) else self.lines)

    def fingerprint(self) -> str:
        """Return the sha256 of the texts."""
        return _digest(self.documents())

    def size(self) -> None:
        """Return None: the size is unknown."""


def _text_of(record: Mapping[str, Any], field: str, location: str) -> str:
    """Return the text of a record; null counts as an empty text."""
    if field not in record:
        raise InputError(
            f"{location} has no field {field!r}, only {', '.join(sorted(record))}: name the field with the text"
        )
    text = record[field]
    if not isinstance(text, str | None):
        raise InputError(f"{location} has a {type(text).__name__} in the field {field!r}: name a field with text")
    return make_encodable(text or "")


def _digest(parts: Iterable[str]) -> str:
    """Return the sha256 of several texts, each preceded by its length: the same text split differently differs."""
    digest = hashlib.sha256()
    for part in parts:
        encoded = part.encode("utf-8", "surrogatepass")
        digest.update(len(encoded).to_bytes(8, "little") + encoded)
    return digest.hexdigest()
