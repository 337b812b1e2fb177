"""Read dictionary files, plain or compressed, and tidy the words in them."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from relexify.errors import InputError
from relexify.text.decoding import open_decompressed, read_blocks

__all__ = ["check_size", "read_content", "read_lines", "tidy"]

_LARGEST = 1 << 28  # bytes, decompressed: several times the largest published dictionaries


def read_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a file in UTF-8.

    Raises:
        InputError: The file cannot be read as text, or is too large for a dictionary.
    """
    size = 0
    for line in chain.from_iterable(read_blocks(path)):
        size += len(line) + 1
        check_size(size, path)
        yield line


def read_content(path: Path) -> bytes:
    """Return the whole content of a file, decompressed.

    Raises:
        InputError: The file cannot be read, or is too large for a dictionary.
    """
    with open_decompressed(path) as stream:
        content = stream.read(_LARGEST + 1)
    check_size(len(content), path)
    return content


def check_size(size: int, path: Path) -> None:
    """Validate the size of a decompressed dictionary; a few kilobytes may decompress to any number of gigabytes.

    Raises:
        InputError: The file is too large for a dictionary.
    """
    if size > _LARGEST:
        raise InputError(f"{path} holds more than {_LARGEST:,} bytes, more than any dictionary: check the file")


def tidy(side: str) -> str:
    """Return one side of a pair in NFC, with single spaces, and without surrounding spaces and byte order marks."""
    return unicodedata.normalize("NFC", " ".join(side.replace("\ufeff", "").split()))
