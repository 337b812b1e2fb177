"""word2vec's formats, text and binary, plain or compressed; fastText's `.vec` files and GloVe use the text format.

Text: a line is a word, a space and its numbers; the first line may be "count width". Words may contain spaces, so lines
are split from the right. Binary: a line "count width", then each word, a space and its float32 numbers.
"""

from __future__ import annotations

import logging
import warnings
from itertools import chain, islice
from pathlib import Path
from typing import IO

import numpy as np

from relexify.errors import InputError
from relexify.evidence.vectors.word_vectors import WordVectors
from relexify.progress import count_of
from relexify.text.decoding import open_decompressed, read_line_blocks, strip_byte_order_mark

__all__ = ["is_word2vec_binary", "read_text_vectors", "read_word2vec_binary"]

_LINES_AT_ONCE = 256
_LONGEST_LINE = 1 << 20  # bytes
_WIDEST = 1 << 20  # numbers in a vector
_LONGEST_HEADER = 100  # bytes
_LONGEST_WORD = 1 << 20  # bytes
_SAMPLE = 4096  # bytes
_NEVER_IN_TEXT = frozenset(range(32)) - frozenset(b"\t\n\r")
_FIRST_BYTES = 1 << 22  # initial size of the matrix

logger = logging.getLogger(__name__)


def read_text_vectors(path: str | Path, *, limit: int | None = None) -> WordVectors:
    """Read vectors in the text format into memory.

    Args:
        path: The file, plain or compressed.
        limit: Read at most this many words.

    Raises:
        InputError: A line has another width than the first one, or is damaged; the message names the line.
    """
    path = Path(path)
    blocks = read_line_blocks(path, _LONGEST_LINE)
    lines = chain.from_iterable(block.removesuffix(b"\n").split(b"\n") for block in blocks)
    first = strip_byte_order_mark(next(lines, b""), path)
    announced = _announced_shape(first)
    width = len(first.split()) - 1 if announced is None else announced[1]
    if width < 1:
        raise InputError(f"{path}, line 1: no numbers follow the word; give vectors as text, one word per line")
    if announced is None:
        lines = chain([first], lines)
    store = _RowStore(path, width)
    wanted, number = lines if limit is None else islice(lines, limit), 2 if announced else 1
    while block := list(islice(wanted, _LINES_AT_ONCE)):
        size = len(block)
        while block and not block[-1].strip():  # a file may end in empty lines
            block.pop()
        parts = [_split(line, width) for line in block]
        rows = _parse(b" ".join(numbers for _, numbers in parts))
        if rows.size != len(block) * width or not all(numbers for _, numbers in parts):
            raise _bad_line(path, block, width, number)
        store.append([word for word, _ in parts], rows.reshape(-1, width), "line", number)
        number += size
    if announced is not None and store.read != announced[0] and store.read != limit:
        raise InputError(
            f"{path} announces {announced[0]} words in its first line, but has {store.read}: download it again"
        )
    return store.finish()


def is_word2vec_binary(path: str | Path) -> bool:
    """Whether a file that starts with "count width" continues with raw numbers rather than text."""
    with open_decompressed(Path(path)) as stream:
        if _announced_shape(stream.readline(_LONGEST_HEADER)) is None:
            return False
        sample = stream.read(_SAMPLE)
    return not _NEVER_IN_TEXT.isdisjoint(sample)


def read_word2vec_binary(path: str | Path, *, limit: int | None = None) -> WordVectors:
    """Read word2vec's binary format into memory.

    Args:
        path: The file, plain or compressed.
        limit: Read at most this many words.

    Raises:
        InputError: The file is truncated or damaged.
    """
    path = Path(path)
    with open_decompressed(path) as stream:
        announced = _announced_shape(stream.readline(_LONGEST_HEADER))
        if announced is None or announced[1] < 1:
            raise InputError(f"{path} does not start with 'count width': give vectors in word2vec's format")
        count, width = announced
        if width > _WIDEST:
            raise InputError(f"{path} is damaged: it announces vectors of {width} numbers; download it again")
        store = _RowStore(path, width)
        for number in range(1, (count if limit is None else min(count, limit)) + 1):
            word, numbers = _read_word(stream), stream.read(4 * width)
            if word is None or len(numbers) != 4 * width:
                raise InputError(
                    f"{path} is cut short or damaged at word {number} of {count} announced words: download it again"
                )
            store.append([word], np.frombuffer(numbers, "<f4")[None], "word", number)
    return store.finish()


class _RowStore:
    """Collects words with their rows in one float32 matrix that grows in place; of equal words, the first is kept.

    Memory is allocated as rows are read, not for the announced size, so a wrong announcement costs no memory.

    Attributes:
        path: The file that is read, for messages.
        width: The number of components of a row.
        read: Number of rows that were added, including duplicates.
    """

    def __init__(self, path: Path, width: int) -> None:
        self.path = path
        self.width = width
        self.read = 0
        self._words: dict[str, None] = {}  # an ordered set
        self._matrix = np.empty((0, width), np.float32)

    def append(self, raw: list[bytes], rows: np.ndarray, where: str, number: int) -> None:
        """Add words with their rows [words × width].

        Args:
            raw: The words in UTF-8.
            rows: Their rows.
            where: "line" or "word", for messages.
            number: Number of the first line or word.
        """
        words = []
        for position, word in enumerate(raw, start=number):
            try:
                words.append(word.decode())
            except UnicodeDecodeError as error:
                raise InputError(
                    f"{self.path}, {where} {position}: the word {word!r} is not UTF-8; convert it to UTF-8"
                ) from error
        finite = np.isfinite(rows).all(axis=1)
        if not finite.all():
            row = int(np.argmin(finite))
            raise InputError(
                f"{self.path}, {where} {number + row}: the vector of {words[row]!r} holds NaN or infinity; "
                "download the file again"
            )
        start, self.read = len(self._words), self.read + len(words)
        fresh = []
        for position, text in enumerate(words):
            if text not in self._words:
                self._words[text] = None
                fresh.append(position)
        if len(self._words) > len(self._matrix):
            first = _FIRST_BYTES // (4 * self.width)
            # Resizing in place lets the allocator move pages instead of copying them.
            rows_reserved = max(len(self._words), 2 * len(self._matrix), first)
            self._matrix.resize((rows_reserved, self.width), refcheck=False)
        self._matrix[start : len(self._words)] = rows if len(fresh) == len(words) else rows[fresh]

    def finish(self) -> WordVectors:
        """Return the vectors; nothing can be added afterwards.

        Raises:
            InputError: No vectors were added.
        """
        words = list(self._words)
        if not words:
            raise InputError(f"{self.path} holds no vectors: give a file with one word and its numbers per line")
        if self.read > len(words):
            repeated = self.read - len(words)
            logger.warning(
                "%s repeats words in %s: the first row of each is kept", self.path, count_of(repeated, "row")
            )
        self._matrix.resize((len(words), self.width), refcheck=False)
        return WordVectors(words, self._matrix)


def _announced_shape(line: bytes) -> tuple[int, int] | None:
    """Return `(count, width)` if a first line announces them, else None."""
    fields = line.split()
    if len(fields) != 2 or not all(field.isdigit() and len(field) < 19 for field in fields):
        return None
    return int(fields[0]), int(fields[1])


def _parse(numbers: bytes) -> np.ndarray:
    """Parse numbers separated by spaces, float32 [n]; if a field is not a number, fewer numbers are returned."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # older versions of numpy warn instead of raising
        try:
            return np.fromstring(numbers, np.float32, sep=" ")
        except ValueError:
            return np.zeros(0, np.float32)


def _split(line: bytes, width: int) -> tuple[bytes, bytes]:
    """Split a line into its word and its numbers; no numbers if there are not `width` of them."""
    line = line.rstrip(b" \t\r\n")
    if line.count(b" ") == width:
        word, _, numbers = line.partition(b" ")
        return word, numbers
    fields = line.rsplit(None, width)
    # A word may contain spaces; but if the "word" ends in a decimal number, the line has too many numbers.
    if len(fields) != width + 1 or (b"." in fields[0] and _is_number(fields[0].split()[-1])):
        return line, b""
    return fields[0], b" ".join(fields[1:])


def _bad_line(path: Path, block: list[bytes], width: int, number: int) -> InputError:
    """Return an error that names the line of a block that cannot be read, and the reason."""
    for line_number, line in enumerate(block, start=number):
        fields = _split(line, width)[1].split()
        if len(fields) != width:
            found = max(len(line.split()) - 1, 0)
            return InputError(
                f"{path}, line {line_number}: {found} numbers, but {width} are expected; download the file again"
            )
        wrong = [field.decode(errors="replace") for field in fields if not _is_number(field)]
        if wrong:
            return InputError(f"{path}, line {line_number}: {wrong[0]!r} is not a number; download the file again")
    return InputError(
        f"{path} cannot be read between lines {number} and {number + len(block)}: download the file again"
    )


def _is_number(field: bytes) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _read_word(stream: IO[bytes]) -> bytes | None:
    """Read up to the next space, without the newline that some writers put before a word; None at the end."""
    word = bytearray()
    while (byte := stream.read(1)) != b" ":
        if not byte or len(word) > _LONGEST_WORD:
            return None
        word += byte
    return bytes(word).lstrip(b"\n")
