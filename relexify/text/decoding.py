"""Read the lines of text files: decompress, decode and validate them block by block.

The first bytes of a file decide how it is compressed, not its name.
"""

from __future__ import annotations

import bz2
import gzip
import logging
import lzma
import zlib
from collections.abc import Callable, Iterator
from io import BufferedIOBase
from itertools import chain
from pathlib import Path

from relexify.errors import InputError, MissingExtra

__all__ = ["COMPRESSIONS", "compression_of", "read_blocks", "read_first_bytes"]

COMPRESSIONS = {".gz": b"\x1f\x8b", ".xz": b"\xfd7zXZ\x00", ".bz2": b"BZh", ".zst": b"\x28\xb5\x2f\xfd"}
"""The first bytes of a compressed file, by its usual suffix."""

_LOGGER = logging.getLogger(__name__)


def read_blocks(path: Path) -> Iterator[list[str]]:
    r"""Yield all lines of a UTF-8 file in order, many at a time, without their newlines.

    Only `\n` and `\r\n` end a line; other line separators of Unicode are text.

    Raises:
        InputError: The file is missing, damaged, not UTF-8 or not text at all.
    """
    line_number = 1
    for block in _whole_lines(path):
        lines = _decode(block, path, line_number).split("\n")
        if block.endswith(b"\n"):
            lines.pop()
        line_number += len(lines)
        yield lines


def read_first_bytes(path: Path) -> bytes:
    """Return the first bytes of the file, before any decompression.

    Raises:
        InputError: It cannot be read.
    """
    try:
        with open(path, "rb") as stream:
            return stream.read(16)
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}): check the name and the permissions") from error


def compression_of(path: Path) -> str:
    """Return the usual suffix of a file's compression, or an empty text if it is not compressed."""
    first_bytes = read_first_bytes(path)
    return next((name for name, magic in COMPRESSIONS.items() if first_bytes.startswith(magic)), "")


def _whole_lines(path: Path) -> Iterator[bytes]:
    """Yield the decompressed bytes, split after newlines, without a byte order mark."""
    pending: list[bytes] = []
    blocks = filter(None, _decompress(path))
    first = _strip_byte_order_mark(next(blocks, b""), path)
    for block in chain([first], blocks):
        end = block.rfind(b"\n") + 1
        if end:
            yield b"".join([*pending, block[:end]])
            pending.clear()
        pending.append(block[end:])
    if last := b"".join(pending):
        yield last


def _decompress(path: Path) -> Iterator[bytes]:
    """Yield the file's bytes in large blocks, decompressed."""
    first_bytes, compression = read_first_bytes(path), compression_of(path)
    if first_bytes and compression != (path.suffix if path.suffix in COMPRESSIONS else ""):
        _LOGGER.info("reading %s as %s, despite its name", path, compression or "uncompressed text")
    if first_bytes.startswith(b"PK\x03\x04"):
        raise InputError(f"{path} is a zip archive: unpack it and give the files in it")
    try:
        yield from _zst_blocks(path) if compression == ".zst" else _blocks(path, compression)
    except (EOFError, OSError, lzma.LZMAError, zlib.error) as error:
        kind = f"the {compression} data is truncated or corrupt" if compression else "the disk failed"
        raise InputError(f"{path} cannot be read to its end, {kind} ({error}): download or write it again") from error


def _blocks(path: Path, compression: str) -> Iterator[bytes]:
    """Yield the blocks of a file that the standard library can decompress."""
    openers: dict[str, Callable[[Path], BufferedIOBase]] = {
        ".gz": gzip.GzipFile, ".xz": lzma.LZMAFile, ".bz2": bz2.BZ2File
    }  # fmt: skip
    with openers[compression](path) if compression else open(path, "rb") as stream:
        while block := stream.read(_BLOCK_SIZE):
            yield block


def _zst_blocks(path: Path) -> Iterator[bytes]:
    """Yield the blocks of a zstandard file, which may have several frames; the last one must be complete."""
    try:
        import zstandard
    except ImportError as error:
        raise MissingExtra("zstandard", f"reading {path}", "corpora") from error
    frame = None
    try:
        for block in _blocks(path, ""):
            data = block
            while data:
                if frame is None or frame.eof:
                    frame = zstandard.ZstdDecompressor().decompressobj()
                yield frame.decompress(data)
                data = frame.unused_data
    except zstandard.ZstdError as error:
        raise EOFError(str(error)) from error
    if frame is not None and not frame.eof:
        raise EOFError("the last frame has no end")


def _strip_byte_order_mark(block: bytes, path: Path) -> bytes:
    """Remove the byte order mark of UTF-8; raise an error for those of other encodings."""
    for mark, encoding in _FOREIGN_MARKS.items():
        if block.startswith(mark):
            raise InputError(f"{path} is {encoding}, not UTF-8: convert it with `iconv -f {encoding} -t UTF-8`")
    return block.removeprefix(b"\xef\xbb\xbf")


def _decode(block: bytes, path: Path, line_number: int) -> str:
    """Decode whole lines; the first one has the given number."""
    if (offset := block.find(b"\0")) >= 0:
        line = line_number + block.count(b"\n", 0, offset)
        raise InputError(f"{path} is not text (line {line} holds a NUL byte): give a plain or compressed text file")
    try:
        text = block.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(_not_utf8(block, path, line_number, error.start)) from error
    return text.replace("\r\n", "\n") if "\r" in text else text


def _not_utf8(block: bytes, path: Path, line_number: int, offset: int) -> str:
    """Return a message that says where a file is not UTF-8."""
    line = line_number + block.count(b"\n", 0, offset)
    found = f"{path} is not UTF-8: line {line} holds the byte 0x{block[offset]:02x}"
    magic = COMPRESSIONS.get(path.suffix)
    if magic and not read_first_bytes(path).startswith(magic):
        return f"{found}, and the file does not begin like a {path.suffix} file either: download or write it again"
    return f"{found}; convert the file with `iconv -f latin1 -t utf-8` (or from its true encoding)"


_BLOCK_SIZE = 1 << 20
_FOREIGN_MARKS = {
    b"\xff\xfe\x00\x00": "UTF-32LE",
    b"\x00\x00\xfe\xff": "UTF-32BE",
    b"\xff\xfe": "UTF-16LE",
    b"\xfe\xff": "UTF-16BE",
}
