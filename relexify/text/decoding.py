"""Read files in bounded memory: decompress, decode and validate them block by block.

Compression is recognised by the first bytes of a file, not by its name. A file of a few kilobytes may decompress to
terabytes, or to one endless line, so no more than one block or one line of bounded length is held in memory.
"""

from __future__ import annotations

import bz2
import gzip
import logging
import lzma
import zlib
from collections.abc import Callable, Iterator
from io import BufferedIOBase, BufferedReader, RawIOBase
from pathlib import Path
from typing import TYPE_CHECKING

from relexify.errors import InputError, importing
from relexify.progress import ONCE

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

__all__ = [
    "COMPRESSIONS",
    "JSON_SUFFIXES",
    "LONGEST_LINE",
    "compression_of",
    "format_suffix",
    "open_decompressed",
    "read_blocks",
    "read_first_bytes",
    "read_line_blocks",
    "strip_byte_order_mark",
]

COMPRESSIONS = {".gz": b"\x1f\x8b", ".xz": b"\xfd7zXZ\x00", ".bz2": b"BZh", ".zst": b"\x28\xb5\x2f\xfd"}
"""The first bytes of a compressed file, by its usual suffix."""
JSON_SUFFIXES = (".jsonl", ".ndjson", ".json")
"""Suffixes of files with one json object per line."""
OFFICE_SUFFIXES = (".xlsx", ".docx", ".ods", ".odt")
"""Suffixes of office documents: zip archives without any plain text in them."""
LONGEST_LINE = 1 << 27
"""The longest line that is read, in bytes; some corpora are a single line of 100 MB."""

_BLOCK_SIZE = 1 << 20
_PDF = b"%PDF-"
_ZST_PIECE = 1 << 10  # small, because a piece is decompressed as a whole, to up to 32,768 times its size

_LOGGER = logging.getLogger(__name__)


def read_blocks(path: Path) -> Iterator[list[str]]:
    r"""Yield all lines of a UTF-8 file in order, many at a time, without their newlines.

    Only `\n` and `\r\n` end a line; other Unicode line separators are part of the text.

    Raises:
        InputError: The file is missing, damaged, not UTF-8 or not text at all.
    """
    compression = compression_of(path)
    if compression != (path.suffix if path.suffix in COMPRESSIONS else ""):
        kind = compression or "uncompressed text"
        _LOGGER.info("reading %s as %s, despite its name", path, kind, extra=ONCE)
    line_number = 1
    for number, raw in enumerate(read_line_blocks(path, LONGEST_LINE)):
        block = raw if number else strip_byte_order_mark(raw, path)
        lines = _decode(block, path, line_number).split("\n")
        if block.endswith(b"\n"):
            lines.pop()
        line_number += len(lines)
        yield lines


def read_line_blocks(path: Path, longest: int) -> Iterator[bytes]:
    """Yield the decompressed bytes of a file in blocks of whole lines.

    Args:
        path: The file.
        longest: The longest line that is accepted, in bytes.

    Raises:
        InputError: The file is missing or damaged, has a longer line, or ends its lines with a carriage return alone.
    """
    pending: list[bytes] = []
    size, line_number = 0, 1
    for block in _decompress(path):
        end = block.rfind(b"\n") + 1
        if end:
            whole = b"".join([*pending, block[:end]])
            pending.clear()
            if line_number == 1:
                _check_line_ends(whole, path)
            yield whole
            size, line_number = 0, line_number + whole.count(b"\n")
        pending.append(block[end:])
        size += len(pending[-1])
        if size > longest:
            raise InputError(
                f"{path}, line {line_number}, has more than {longest:,} bytes: "
                "check that it is the right file, or split the line"
            )
    if last := b"".join(pending):
        if line_number == 1:
            _check_line_ends(last, path)
        yield last


def open_decompressed(path: Path) -> BufferedReader:
    """Open a file to read its decompressed bytes; reading raises an `InputError` if it is missing or damaged."""
    return BufferedReader(_BlockStream(_decompress(path)), _BLOCK_SIZE)


def read_first_bytes(path: Path) -> bytes:
    """Return the first bytes of the file, before any decompression.

    Raises:
        InputError: The file cannot be read, or is not a regular file: a pipe can be read only once, and a device has no
            end.
    """
    try:
        if path.exists() and not path.is_file():
            raise InputError(f"{path} is not a regular file: write its content to one, because it is read repeatedly")
        with open(path, "rb") as stream:
            return stream.read(16)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{path} cannot be read ({reason}): check the name and the permissions") from error


def strip_byte_order_mark(block: bytes, path: Path) -> bytes:
    """Remove the byte order mark of UTF-8 from the beginning of a file.

    Raises:
        InputError: The file begins with the mark of another encoding.
    """
    for mark, encoding in _FOREIGN_MARKS.items():
        if block.startswith(mark):
            raise InputError(f"{path} is {encoding}, not UTF-8: convert it with `iconv -f {encoding} -t UTF-8`")
    return block.removeprefix(b"\xef\xbb\xbf")


def format_suffix(path: Path) -> str:
    """Return the suffix of a file's format in lower case, ignoring a compression suffix: `.jsonl` for `a.jsonl.gz`."""
    suffix = path.suffix.lower()
    return Path(path.stem).suffix.lower() if suffix in COMPRESSIONS else suffix


def compression_of(path: Path) -> str:
    """Return the usual suffix of a file's compression, or an empty string if it is not compressed."""
    first_bytes = read_first_bytes(path)
    return next((name for name, magic in COMPRESSIONS.items() if first_bytes.startswith(magic)), "")


def _check_line_ends(block: bytes, path: Path) -> None:
    """Reject a file whose first lines would be read as one, because each ends with a carriage return alone."""
    first, _, rest = block.partition(b"\n")
    if not rest and first.removesuffix(b"\r").count(b"\r") > 1:
        raise InputError(
            f"{path} ends its lines with a carriage return alone, so it would be read as a single line: convert it "
            "with `tr '\\r' '\\n'`"
        )


def _decompress(path: Path) -> Iterator[bytes]:
    """Yield the file's bytes in large blocks, decompressed."""
    first_bytes, compression = read_first_bytes(path), compression_of(path)
    if first_bytes.startswith(b"PK\x03\x04"):
        if path.suffix.lower() in OFFICE_SUFFIXES:
            raise InputError(f"{path} is a document of an office program: save it as plain text, with tabs, in UTF-8")
        raise InputError(f"{path} is a zip archive: unpack it and give the files in it")
    try:
        yield from _zst_blocks(path) if compression == ".zst" else _blocks(path, compression)
    except (EOFError, OSError, lzma.LZMAError, zlib.error) as error:
        reason = f"the {compression} data is truncated or corrupt" if compression else "the disk failed"
        raise InputError(f"{path} cannot be read to its end, {reason} ({error}): download or write it again") from error


def _blocks(path: Path, compression: str, size: int = _BLOCK_SIZE) -> Iterator[bytes]:
    """Yield the blocks of a file that is uncompressed, or compressed in a format of the standard library."""
    openers: dict[str, Callable[[Path], BufferedIOBase]] = {
        ".gz": gzip.GzipFile, ".xz": lzma.LZMAFile, ".bz2": bz2.BZ2File
    }  # fmt: skip
    with openers[compression](path) if compression else open(path, "rb") as stream:
        while block := stream.read(size):
            yield block


def _zst_blocks(path: Path) -> Iterator[bytes]:
    """Yield the blocks of a zstandard file, which may have several frames; raise EOFError if the last is incomplete."""
    with importing("zstandard", f"reading {path}", "corpora"):
        import zstandard
    frame = None
    pending = bytearray()
    try:
        for piece in _blocks(path, "", _ZST_PIECE):
            data = piece
            while data:
                if frame is None or frame.eof:
                    frame = zstandard.ZstdDecompressor().decompressobj()
                pending += frame.decompress(data)
                data = frame.unused_data
                while len(pending) >= _BLOCK_SIZE:
                    yield bytes(pending[:_BLOCK_SIZE])
                    del pending[:_BLOCK_SIZE]
    except zstandard.ZstdError as error:
        raise EOFError(str(error)) from error
    if frame is not None and not frame.eof:
        raise EOFError("the last frame has no end")
    if pending:
        yield bytes(pending)


class _BlockStream(RawIOBase):
    """A stream of the bytes in consecutive blocks."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks = blocks
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Read into a buffer, and return the number of bytes: 0 at the end."""
        while not self._rest and (block := next(self._blocks, None)) is not None:
            self._rest = memoryview(block)
        target = memoryview(buffer).cast("B")
        size = min(len(target), len(self._rest))
        target[:size], self._rest = self._rest[:size], self._rest[size:]
        return size


def _decode(block: bytes, path: Path, line_number: int) -> str:
    """Decode whole lines; `line_number` is the number of the first line, for messages."""
    if (offset := block.find(b"\0")) >= 0:
        raise InputError(_not_text(block, path, line_number, offset))
    try:
        text = block.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.reason == "unexpected end of data":
            raise InputError(
                f"{path} ends in the middle of a character, so it was probably truncated: remove its last line, or "
                "download or write it again"
            ) from error
        raise InputError(_not_utf8(block, path, line_number, error.start)) from error
    return text.replace("\r\n", "\n") if "\r" in text else text


def _not_text(block: bytes, path: Path, line_number: int, offset: int) -> str:
    """Return a message about a NUL byte, which UTF-8 text does not contain."""
    if block[257:262] == b"ustar":
        return f"{path} is a tar archive: unpack it and give the files in it"
    if read_first_bytes(path).startswith(_PDF):
        return _convert_pdf(path)
    line = line_number + block.count(b"\n", 0, offset)
    problem = f"{path} is not text (line {line} holds a NUL byte)"
    for first, encoding in enumerate(("UTF-16BE", "UTF-16LE")):
        # The high byte of each pair is the same for most letters of a script; in Latin text it is NUL.
        if 2 * block[first::2].count(0) > len(block[first::2]):
            return f"{problem}; if it is {encoding}, convert it with `iconv -f {encoding} -t UTF-8`"
    return f"{problem}: give a plain or compressed text file"


def _convert_pdf(path: Path) -> str:
    """Return a message about a PDF, which is not text: most of it is compressed."""
    return f"{path} is a PDF: convert it to text, for example with pdftotext"


def _not_utf8(block: bytes, path: Path, line_number: int, offset: int) -> str:
    """Return a message that gives the line and the byte at which a file is not UTF-8."""
    if read_first_bytes(path).startswith(_PDF):
        return _convert_pdf(path)
    line = line_number + block.count(b"\n", 0, offset)
    problem = f"{path} is not UTF-8: line {line} holds the byte 0x{block[offset]:02x}"
    magic = COMPRESSIONS.get(path.suffix)
    if magic and not read_first_bytes(path).startswith(magic):
        return f"{problem}, and the file does not begin like a {path.suffix} file either: download or write it again"
    return f"{problem}; convert the file with `iconv -f latin1 -t utf-8` (or from its true encoding)"


# UTF-32LE must come before UTF-16LE, whose mark is a prefix of it.
_FOREIGN_MARKS = {
    b"\xff\xfe\x00\x00": "UTF-32LE",
    b"\x00\x00\xfe\xff": "UTF-32BE",
    b"\xff\xfe": "UTF-16LE",
    b"\xfe\xff": "UTF-16BE",
}
