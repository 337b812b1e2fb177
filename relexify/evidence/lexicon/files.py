"""Open dictionary files: plain, .gz, .xz and dictzip."""

from __future__ import annotations

import gzip
import lzma
import unicodedata
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from relexify.errors import InputError

__all__ = ["decode", "open_bytes", "read_bytes", "tidy"]

GZIP, XZ, ZIP = b"\x1f\x8b", b"\xfd7zXZ\x00", b"PK\x03\x04"


@contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """Open a file, decompressing gzip, dictzip and xz; the content decides, not the suffix.

    Raises:
        InputError: The file is missing, unreadable, an archive, or its compressed stream is damaged.
    """
    try:
        with open(path, "rb") as stream:
            start = stream.read(6)
        if start.startswith(ZIP):
            raise InputError(f"{path} is a zip archive: unpack it and give the dictionary inside")
        with _decompress(path, start) as stream:
            yield stream
    except FileNotFoundError as error:
        raise InputError(f"there is no dictionary at {path}: check the path") from error
    except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile) as error:
        raise InputError(f"{path} is truncated or damaged ({error}): download it again") from error
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror or error}): check its permissions") from error


def read_bytes(path: Path) -> bytes:
    """Return the whole content of a file, decompressed."""
    with open_bytes(path) as stream:
        content = stream.read()
    if content[257:262] == b"ustar":
        raise InputError(f"{path} is a tar archive: unpack it and give the dictionary inside")
    return content


def decode(content: bytes, path: Path) -> str:
    """Decode UTF-8, with or without a byte order mark.

    Raises:
        InputError: The bytes are UTF-16, binary, or in another encoding; the message gives the first invalid byte.
    """
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InputError(f"{path} is UTF-16: convert it with `iconv -f utf-16 -t utf-8 {path.name} > new.txt`")
    if b"\0" in content:
        raise InputError(
            f"{path} holds binary data (a zero byte at offset {content.index(0)}), not a dictionary: give a text file, "
            "a FreeDict .index or .dict.dz, or a .tei file"
        )
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"{path} is not UTF-8 (byte {content[error.start]:#04x} at offset {error.start}, line {line}): convert it, "
            f"for example with `iconv -f latin1 -t utf-8 {path.name} > new.txt`"
        ) from error


def tidy(side: str) -> str:
    """Return one side of a pair in NFC, with single spaces, without surrounding spaces and byte order marks."""
    return unicodedata.normalize("NFC", " ".join(side.replace("\ufeff", "").split()))


def _decompress(path: Path, start: bytes) -> IO[bytes]:
    if start.startswith(GZIP):
        return cast(IO[bytes], gzip.open(path, "rb"))
    if start.startswith(XZ):
        return cast(IO[bytes], lzma.open(path, "rb"))
    return open(path, "rb")
