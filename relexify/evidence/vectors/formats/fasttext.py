"""fastText's `.bin`, memory-mapped and read without the fastText package.

The layout, little-endian:

- magic and version (int32 each)
- twelve int32 options and one float64
- the dictionary: entries, words and labels (int32 each), tokens and pruned buckets (int64 each); then, for each entry,
  the word, a NUL, its count (int64) and its type (int8; 0 for a word, 1 for a label)
- one byte: whether the matrix is quantised
- the input matrix: rows and columns (int64 each), float32 data; first the rows of words, then those of n-gram buckets
- the output matrix, which is not needed here
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
_LONGEST_WORD = 1 << 20  # bytes; without this limit, a damaged file would be searched to its end


def read_fasttext(path: str | Path) -> WordVectors:
    """Read a fastText model; the matrices stay on disk until a row is looked up.

    Raises:
        InputError: The file is damaged, cut short, quantised, or not a fastText model.
    """
    path = Path(path)
    try:
        with open(path, "rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
            header, offset = _read_header(path, data)
            words, counts, offset = _read_dictionary(path, data, header, offset)
            rows, offset = _read_matrix_shape(path, data, header, offset)
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read ({error}): check the file and its permissions") from error
    matrix = np.memmap(path, np.dtype("<f4"), "r", offset, (rows, header.width))
    # Supervised models of format 11 contain n-gram lengths, but do not use n-grams. A "pruned" count of 0 means that no
    # bucket is left; -1 means that nothing was pruned.
    unused = (header.version == 11 and header.model == _SUPERVISED) or header.pruned == 0
    ngrams = None
    if not unused and header.buckets and 1 <= max(header.minimum, 1) <= header.maximum:
        ngrams = Ngrams(matrix[header.words :], header.minimum, header.maximum, header.buckets)
    return WordVectors(words, matrix[: header.words], counts, ngrams)


@dataclass(frozen=True)
class _Header:
    """The fields of the header that are needed here."""

    version: int
    width: int
    model: int
    buckets: int
    minimum: int
    maximum: int
    entries: int
    words: int
    pruned: int


def _read_header(path: Path, data: mmap.mmap) -> tuple[_Header, int]:
    """Return the header, and the offset of the first dictionary entry."""
    offset = _OPTIONS.size + _DICTIONARY.size
    if data[:4] != FASTTEXT_MAGIC:
        raise InputError(f"{path} does not begin like a fastText model: give a .bin file that fastText wrote")
    if len(data) < offset:
        raise _cut_short(path, "inside its header")
    version, width, _, _, _, _, _, _, model, buckets, minimum, maximum, _, _ = _OPTIONS.unpack_from(data, 0)
    entries, words, labels, _, pruned = _DICTIONARY.unpack_from(data, _OPTIONS.size)
    if version not in (11, 12):
        raise InputError(
            f"{path} has fastText format {version}, but only formats 11 and 12 are supported: save it with fastText 0.9"
        )
    if pruned > 0:
        raise _quantised(path)
    # Validate sizes before any memory is allocated for them.
    ranges = {
        "width": (width, 1, 1 << 20),
        "number of buckets": (buckets, 0, 1 << 31),
        "shortest n-gram": (minimum, 0, 1 << 10),
        "longest n-gram": (maximum, 0, 1 << 10),
        "number of dictionary entries": (entries, 0, (len(data) - offset) // (_TRAILER + 1)),
        "number of words": (words, 0, entries),
        "number of labels": (labels, 0, entries),
    }
    for name, (found, lowest, highest) in ranges.items():
        if not lowest <= found <= highest:
            raise InputError(
                f"{path} is damaged: its header gives {found} as {name}, outside {lowest} to {highest}; "
                "download it again"
            )
    if words + labels != entries:
        raise InputError(
            f"{path} is damaged: its header counts {words} words and {labels} labels in {entries} entries; "
            "download it again"
        )
    return _Header(version, width, model, buckets, minimum, maximum, entries, words, pruned), offset


def _read_dictionary(path: Path, data: mmap.mmap, header: _Header, offset: int) -> tuple[list[str], np.ndarray, int]:
    """Return the words, their counts [words], and the offset of the end of the dictionary."""
    raw, trailers, size = [], [], len(data)
    for entry in range(header.entries):
        end = data.find(b"\0", offset, offset + _LONGEST_WORD)
        if end < 0 or end + _TRAILER >= size:
            raise _cut_short(path, f"at entry {entry + 1} of {header.entries} of its dictionary")
        raw.append(data[offset:end])
        trailers.append(end + 1)
        offset = end + 1 + _TRAILER
    # Words come before labels, and only words have rows in the matrix.
    counts = _read_int64(np.frombuffer(data[:offset], np.uint8), np.asarray(trailers[: header.words], np.int64))
    return _decode(raw[: header.words]), counts, offset


def _read_int64(data: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Read little-endian int64 numbers at the given offsets of an array of bytes; the offsets need not be aligned."""
    numbers = np.zeros(len(offsets), np.int64)
    for byte in range(8):
        numbers |= data[offsets + byte].astype(np.int64) << (8 * byte)
    return numbers


def _decode(raw: list[bytes]) -> list[str]:
    """Decode words; invalid bytes become U+FFFD, and more U+FFFD are appended until the word is unique."""
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


def _read_matrix_shape(path: Path, data: mmap.mmap, header: _Header, offset: int) -> tuple[int, int]:
    """Return the number of rows of the input matrix, and the offset of its numbers."""
    start = offset + _MATRIX.size
    if offset < len(data) and data[offset] != 0:
        raise _quantised(path)
    if start > len(data):
        raise _cut_short(path, "before its matrix")
    _, rows, columns = _MATRIX.unpack_from(data, offset)
    if rows != header.words + header.buckets or columns != header.width or not rows:
        raise InputError(
            f"{path} is damaged: its matrix is {rows} × {columns}, but its header has {header.words} words and "
            f"{header.buckets} buckets of width {header.width}; download it again"
        )
    if start + 4 * rows * columns > len(data):
        raise _cut_short(path, f"inside its matrix of {rows} × {columns}")
    return rows, start


def _cut_short(path: Path, where: str) -> InputError:
    return InputError(f"{path} is cut short or damaged: it ends {where}; download it again")


def _quantised(path: Path) -> InputError:
    return InputError(f"{path} is a quantised fastText model: use the unquantised .bin it was made from")
