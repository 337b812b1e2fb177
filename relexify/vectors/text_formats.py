"""Word vectors as text (`.vec`, word2vec's and GloVe's) and in word2vec's binary format.

A text line is a word, a space and its numbers; a first line "count width" may announce them. Words may hold spaces, so
lines are cut from the right.
"""

from __future__ import annotations

import gzip
import logging
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import IO

import numpy as np

from relexify.errors import InputError
from relexify.vectors.row_store import RowStore
from relexify.vectors.word_vectors import WordVectors

__all__ = ["read_text", "read_word2vec_binary", "text_header"]

_LINES_AT_ONCE = 1024
_LONGEST_WORD = 1 << 20  # bytes

logger = logging.getLogger(__name__)


def read_text(path: str | Path, *, limit: int | None = None) -> WordVectors:
    """Read `.vec`, `.vec.gz` or GloVe text into memory.

    Args:
        path: The file, plain or gzipped.
        limit: Read so many words and no more.

    Raises:
        InputError: A line is not what the first one promises; the message names it.
    """
    path = Path(path)
    with _opened(path) as stream:
        first = stream.readline()
        announced = text_header(first)
        if announced is None:
            lines, start = chain([first], stream), 1
            width = len(first.split()) - 1
        else:
            lines, start = stream, 2
            width = announced[1]
        if width < 1:
            raise InputError(f"{path}, line {start}: no numbers follow the word; give vectors as text, one word a line")
        store = RowStore(width)
        _read_lines(path, iter(lines) if limit is None else islice(lines, limit), store, start)
    if announced is not None:
        _check_count(path, announced[0], store.read, limit)
    return _finish(path, store)


def read_word2vec_binary(path: str | Path, *, limit: int | None = None) -> WordVectors:
    """Read word2vec's binary format into memory: "count width", then each word, a space and its float32 numbers.

    Raises:
        InputError: The file is cut short or damaged.
    """
    path = Path(path)
    with _opened(path) as stream:
        announced = text_header(stream.readline(100))
        if announced is None:
            raise InputError(f"{path} does not start with 'count width': give vectors in word2vec's format")
        count, width = announced
        store = RowStore(width)
        for entry in range(count if limit is None else min(count, limit)):
            word, numbers = _read_word(stream), stream.read(4 * width)
            if word is None or len(numbers) != 4 * width:
                raise InputError(
                    f"{path} is cut short or damaged at word {entry + 1} of the {count} that its first line announces"
                )
            _append(path, "word", entry + 1, store, [word], np.frombuffer(numbers, "<f4")[None])
    return _finish(path, store)


def text_header(line: bytes) -> tuple[int, int] | None:
    """`(count, width)` if a first line announces them, else `None`."""
    fields = line.split()
    if len(fields) != 2 or not all(field.isdigit() and len(field) < 19 for field in fields):
        return None
    return int(fields[0]), int(fields[1])


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    """Open a file, unpacking gzip, and turn what goes wrong while it is read into one sentence."""
    try:
        with open(path, "rb") as plain:
            zipped = plain.read(2) == b"\x1f\x8b"
            plain.seek(0)
            with gzip.open(plain) if zipped else plain as stream:
                yield stream  # type: ignore[misc]
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path} cannot be read ({error}): get it anew") from error


def _read_lines(path: Path, lines: Iterator[bytes], store: RowStore, number: int) -> None:
    """Read the lines, the first of which has the given number, into the store, a block at once."""
    while block := list(islice(lines, _LINES_AT_ONCE)):
        size = len(block)
        while block and not block[-1].strip():  # a file may end in empty lines
            block.pop()
        parts = [_split(line, store.width) for line in block]
        text = b" ".join(numbers for _, numbers in parts)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of numbers that are none, told better below
            rows = np.fromstring(text, np.float32, sep=" ")
        if rows.size != len(block) * store.width or not all(numbers for _, numbers in parts):
            raise _bad_line(path, block, store.width, number)
        _append(path, "line", number, store, [word for word, _ in parts], rows.reshape(-1, store.width))
        number += size


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


def _is_number(field: bytes) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _bad_line(path: Path, block: list[bytes], width: int, number: int) -> InputError:
    """Say which line of a block cannot be read, and why."""
    for line in block:
        word, numbers = _split(line, width)
        fields = numbers.split()
        if len(fields) != width:
            found = max(len(line.split()) - 1, 0)
            return InputError(f"{path}, line {number}: {found} numbers where {width} are expected; get the file anew")
        wrong = [field for field in fields if not _is_number(field)]
        if wrong:
            shown = wrong[0].decode(errors="replace")
            return InputError(f"{path}, line {number}: {shown!r} is not a number; get the file anew")
        number += 1
    return InputError(f"{path} cannot be read near line {number}; get the file anew")


def _read_word(stream: IO[bytes]) -> bytes | None:
    """The bytes up to the next space, less the line break that some writers put before a word; None at the end."""
    word = bytearray()
    while (byte := stream.read(1)) != b" ":
        if not byte or len(word) > _LONGEST_WORD:
            return None
        word += byte
    return bytes(word).lstrip(b"\n")


def _append(path: Path, unit: str, number: int, store: RowStore, raw: list[bytes], rows: np.ndarray) -> None:
    """Decode the words and store them with their rows; `unit` and `number` say where the first of them stands."""
    words = []
    for place, word in enumerate(raw):
        try:
            words.append(word.decode())
        except UnicodeDecodeError as error:
            raise InputError(
                f"{path}, {unit} {number + place}: the word {word!r} is not UTF-8; convert the file to UTF-8"
            ) from error
    finite = np.isfinite(rows).all(axis=1)
    if not finite.all():
        place = int(np.argmin(finite))
        raise InputError(
            f"{path}, {unit} {number + place}: the vector of {words[place]!r} holds NaN or infinity; get the file anew"
        )
    store.append(words, rows)


def _check_count(path: Path, announced: int, read: int, limit: int | None) -> None:
    """Compare the number of rows with the first line's, unless reading stopped on purpose."""
    if limit is not None and read == limit:
        return
    if read != announced:
        raise InputError(f"{path} announces {announced} words in its first line and has {read}: get it anew")


def _finish(path: Path, store: RowStore) -> WordVectors:
    """The vectors read, if there are any."""
    if not store.words:
        raise InputError(f"{path} holds no vectors: give a file with one word and its numbers a line")
    if store.duplicates:
        logger.warning("%s holds %d words more than once: the first of each is kept", path, store.duplicates)
    return WordVectors(store.words, store.matrix())
