"""fastText's `.bin`, read by memory map and without the fastText package.

The layout, little-endian: magic and version (int32 each); twelve int32 options and one float64; the dictionary (int32
entries, words, labels; int64 tokens and pruned buckets; then per entry the word, a NUL, its int64 count and an int8
type, 0 for a word and 1 for a label); one byte that says whether the matrix is quantised; the input matrix (int64
rows, int64 columns, float32 data), whose first rows are the words' and whose other rows are the n-gram buckets'. An
output matrix follows, which nothing here needs.
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from relexify.errors import InputError
from relexify.evidence.vectors.ngrams import Ngrams
from relexify.evidence.vectors.word_vectors import WordVectors

__all__ = ["FASTTEXT_MAGIC", "read_fasttext"]

FASTTEXT_MAGIC = struct.pack("<i", 793712314)

_OPTIONS = struct.Struct("<4x13id")
_DICTIONARY = struct.Struct("<3i2q")
_MATRIX = struct.Struct("<?2q")
_SUPERVISED = 3
_TRAILER = 9  # bytes after a word and its NUL: the count and the type
_LONGEST_WORD = 1 << 20  # bytes; without a bound, a damaged file would be searched to its end


def read_fasttext(path: str | Path) -> WordVectors:
    """Read a fastText model; the matrices stay on disk until a row is looked up.

    Raises:
        InputError: The file is damaged, cut short, quantised, or not a fastText model.
    """
    path = Path(path)
    try:
        with open(path, "rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
            header, place = _read_header(path, data)
            words, counts, place = _read_dictionary(path, data, header, place)
            rows, place = _read_matrix_shape(path, data, header, place)
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read ({error}): check the file and its permissions") from error
    matrix = np.memmap(path, np.dtype("<f4"), "r", place, (rows, header.width))
    return WordVectors(words, matrix[: header.words], counts, _ngrams(header, matrix[header.words :]))


@dataclass(frozen=True)
class _Header:
    """The numbers of the header that matter here."""

    version: int
    width: int
    model: int
    buckets: int
    minimum: int
    maximum: int
    entries: int
    words: int
    labels: int
    pruned: int


def _read_header(path: Path, data: mmap.mmap) -> tuple[_Header, int]:
    """The header, and where the dictionary's entries start."""
    place = _OPTIONS.size + _DICTIONARY.size
    if data[:4] != FASTTEXT_MAGIC:
        raise InputError(f"{path} does not start as a fastText model does: give a .bin file that fastText wrote")
    if len(data) < place:
        raise _cut_short(path, "inside its header")
    version, width, _, _, _, _, _, _, model, buckets, minimum, maximum, _, _ = _OPTIONS.unpack_from(data, 0)
    entries, words, labels, _, pruned = _DICTIONARY.unpack_from(data, _OPTIONS.size)
    header = _Header(version, width, model, buckets, minimum, maximum, entries, words, labels, pruned)
    if version not in (11, 12):
        raise InputError(f"{path} has fastText format {version}; formats 11 and 12 are read: save it with fastText 0.9")
    _check_header(path, header, len(data) - place)
    return header, place


def _check_header(path: Path, header: _Header, rest: int) -> None:
    """Refuse numbers that cannot be, before anything is allocated for them."""
    if header.pruned > 0:
        raise _quantised(path)
    ranges = {
        "width": (header.width, 1, 1 << 20),
        "number of buckets": (header.buckets, 0, 1 << 31),
        "shortest n-gram": (header.minimum, 0, 1 << 10),
        "longest n-gram": (header.maximum, 0, 1 << 10),
        "number of words": (header.words, 0, header.entries),
        "number of labels": (header.labels, 0, header.entries),
        "number of dictionary entries": (header.entries, 0, rest // (_TRAILER + 1)),
    }
    for name, (found, lowest, highest) in ranges.items():
        if not lowest <= found <= highest:
            raise InputError(
                f"{path} is damaged: its header gives {found} as {name}, outside {lowest} to {highest}; get it anew"
            )
    if header.words + header.labels != header.entries:
        raise InputError(
            f"{path} is damaged: its header counts {header.words} words and {header.labels} labels "
            f"in {header.entries} entries; get it anew"
        )


def _read_dictionary(path: Path, data: mmap.mmap, header: _Header, place: int) -> tuple[list[str], np.ndarray, int]:
    """The words, their counts [words], and where the dictionary ends."""
    raw, ends, find, size = [], [], data.find, len(data)
    for entry in range(header.entries):
        end = find(b"\0", place, place + _LONGEST_WORD)
        if end < 0 or end + _TRAILER >= size:
            raise _cut_short(path, f"at entry {entry + 1} of {header.entries} of its dictionary")
        raw.append(data[place:end])
        ends.append(end + 1)
        place = end + 1 + _TRAILER
    # Entries are sorted with the words first, and matrix rows count words only.
    words, trailers = raw[: header.words], np.asarray(ends[: header.words], np.int64)
    return _decode(words), _counts(np.frombuffer(data[:place], np.uint8), trailers), place


def _counts(data: np.ndarray, places: np.ndarray) -> np.ndarray:
    """The little-endian int64 numbers that stand at the given places of a stretch of bytes."""
    counts = np.zeros(len(places), np.int64)
    for byte in range(8):
        counts |= data[places + byte].astype(np.int64) << (8 * byte)
    return counts


def _decode(raw: list[bytes]) -> list[str]:
    """Words from UTF-8; broken bytes become U+FFFD, as often as it takes to be unlike any other word."""
    try:
        return [word.decode() for word in raw]
    except UnicodeDecodeError:
        words = [word.decode(errors="replace") for word in raw]
    taken = {word for word, source in zip(words, raw, strict=True) if word.encode() == source}
    for row, source in enumerate(raw):
        if words[row].encode() != source:
            while words[row] in taken:
                words[row] += "\N{REPLACEMENT CHARACTER}"
            taken.add(words[row])
    return words


def _read_matrix_shape(path: Path, data: mmap.mmap, header: _Header, place: int) -> tuple[int, int]:
    """The number of rows of the input matrix, and where its numbers start."""
    start = place + _MATRIX.size
    if place < len(data) and data[place] != 0:
        raise _quantised(path)
    if start > len(data):
        raise _cut_short(path, "before its matrix")
    _, rows, columns = _MATRIX.unpack_from(data, place)
    if rows != header.words + header.buckets or columns != header.width or not rows:
        raise InputError(
            f"{path} is damaged: its matrix is {rows} × {columns}, where {header.words} words and {header.buckets} "
            f"buckets of width {header.width} were announced; get it anew"
        )
    if start + 4 * rows * columns > len(data):
        raise _cut_short(path, f"inside its matrix of {rows} × {columns}")
    return rows, start


def _ngrams(header: _Header, matrix: np.ndarray) -> Ngrams | None:
    """The n-grams, if the model has any."""
    # Format 11 wrote n-gram lengths into supervised models that never used them; 0 pruned buckets mean "none is left".
    unused = (header.version == 11 and header.model == _SUPERVISED) or header.pruned == 0
    if unused or not header.buckets or not 1 <= max(header.minimum, 1) <= header.maximum:
        return None
    return Ngrams(matrix, header.minimum, header.maximum, header.buckets)


def _cut_short(path: Path, where: str) -> InputError:
    return InputError(f"{path} is cut short or damaged: it ends {where}; get it anew")


def _quantised(path: Path) -> InputError:
    return InputError(f"{path} is a quantised fastText model: use the unquantised .bin it was made from")
