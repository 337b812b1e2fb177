"""Word vectors as text: `.vec`, word2vec's text format and GloVe's, plain or gzipped.

A line is a word, a space and its numbers; a first line "count width" may announce them. Words may hold spaces, so lines
are cut from the right.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path

import numpy as np

from relexify.errors import InputError
from relexify.evidence.vectors.formats.row_store import RowStore, open_vector_file
from relexify.evidence.vectors.word_vectors import WordVectors

__all__ = ["announced_shape", "read_text_vectors"]

_LINES_AT_ONCE = 1024


def read_text_vectors(path: str | Path, *, limit: int | None = None) -> WordVectors:
    """Read vectors written as text into memory.

    Args:
        path: The file, plain or gzipped.
        limit: Read so many words and no more.

    Raises:
        InputError: A line is not what the first one promises; the message names it.
    """
    path = Path(path)
    with open_vector_file(path) as stream:
        first = stream.readline()
        announced = announced_shape(first)
        width = len(first.split()) - 1 if announced is None else announced[1]
        if width < 1:
            raise InputError(f"{path}, line 1: no numbers follow the word; give vectors as text, one word a line")
        lines = iter(stream) if announced else chain([first], stream)
        store = RowStore(path, width)
        _read_lines(lines if limit is None else islice(lines, limit), store, 2 if announced else 1)
    if announced is not None and store.read != announced[0] and store.read != limit:
        raise InputError(f"{path} announces {announced[0]} words in its first line and has {store.read}: get it anew")
    return store.finish()


def announced_shape(line: bytes) -> tuple[int, int] | None:
    """`(count, width)` if a first line announces them, else `None`."""
    fields = line.split()
    if len(fields) != 2 or not all(field.isdigit() and len(field) < 19 for field in fields):
        return None
    return int(fields[0]), int(fields[1])


def _read_lines(lines: Iterator[bytes], store: RowStore, number: int) -> None:
    """Read the lines, the first of which has the given number, into the store, a block at once."""
    while block := list(islice(lines, _LINES_AT_ONCE)):
        size = len(block)
        while block and not block[-1].strip():  # a file may end in empty lines
            block.pop()
        parts = [_split(line, store.width) for line in block]
        rows = _parse(b" ".join(numbers for _, numbers in parts))
        if rows.size != len(block) * store.width or not all(numbers for _, numbers in parts):
            raise _bad_line(store.path, block, store.width, number)
        store.append([word for word, _ in parts], rows.reshape(-1, store.width), "line", number)
        number += size


def _parse(numbers: bytes) -> np.ndarray:
    """Numbers between spaces as float32 [n]; fewer than there are where one is none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # what older versions of numpy do instead of raising
        try:
            return np.fromstring(numbers, np.float32, sep=" ")
        except ValueError:
            return np.zeros(0, np.float32)


def _split(line: bytes, width: int) -> tuple[bytes, bytes]:
    """A line's word and its numbers; no numbers where there are not `width` of them."""
    line = line.rstrip(b" \t\r\n")
    if line.count(b" ") == width:
        word, _, numbers = line.partition(b" ")
        return word, numbers
    fields = line.rsplit(None, width)
    # A word may hold spaces, but one that ends in a decimal number is a line with a number too many.
    if len(fields) != width + 1 or (b"." in fields[0] and _is_number(fields[0].split()[-1])):
        return line, b""
    return fields[0], b" ".join(fields[1:])


def _bad_line(path: Path, block: list[bytes], width: int, number: int) -> InputError:
    """Say which line of a block cannot be read, and why."""
    for place, line in enumerate(block, start=number):
        fields = _split(line, width)[1].split()
        if len(fields) != width:
            found = max(len(line.split()) - 1, 0)
            return InputError(f"{path}, line {place}: {found} numbers where {width} are expected; get the file anew")
        wrong = [field.decode(errors="replace") for field in fields if not _is_number(field)]
        if wrong:
            return InputError(f"{path}, line {place}: {wrong[0]!r} is not a number; get the file anew")
    return InputError(f"{path} cannot be read between lines {number} and {number + len(block)}: get the file anew")


def _is_number(field: bytes) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True
