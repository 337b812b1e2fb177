"""safetensors files of any size: read the header, rewrite a few tensors, link the rest; no file is held in memory.

A safetensors file consists of the size of its header (8 bytes), the header (json), and the data of all tensors without
gaps.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import struct
from collections.abc import Container, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from relexify.storage.json import parse_json

__all__ = ["TensorBytes", "expected_size", "link_or_copy", "read_header", "rewrite_tensors"]

_METADATA = "__metadata__"
_LENGTH = 8  # bytes of the size of the header
_LARGEST_HEADER = 100_000_000  # bytes; safetensors rejects larger headers
_BLOCK = 1 << 24  # bytes


@dataclass(frozen=True)
class TensorBytes:
    """The values of a tensor as they are stored in a file.

    Attributes:
        dtype: The name of the dtype in safetensors, such as `"BF16"`.
        shape: The shape of the tensor.
        data: The bytes of the tensor, in row-major order.
    """

    dtype: str
    shape: tuple[int, ...]
    data: memoryview


def read_header(path: Path) -> tuple[dict[str, dict[str, Any]], int]:
    """Return the entries of a safetensors file by name (dtype, shape, data_offsets), and the offset of its data."""
    with open(path, "rb") as stream:
        (size,) = struct.unpack("<Q", stream.read(8))
        header = parse_json(stream.read(size))
    header.pop(_METADATA, None)
    return header, 8 + size


def expected_size(path: Path) -> int:
    """Return the size in bytes of a safetensors file if it were complete; if its header is truncated, a lower bound.

    For a file that is damaged in another way, return 0.
    """
    with open(path, "rb") as stream:
        length = stream.read(_LENGTH)
    if len(length) < _LENGTH:
        return _LENGTH
    begin = _LENGTH + int(struct.unpack("<Q", length)[0])
    if begin > path.stat().st_size:
        return begin if begin <= _LARGEST_HEADER else 0
    try:
        entries, _ = read_header(path)
        return begin + max((int(entry["data_offsets"][1]) for entry in entries.values()), default=0)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError):
        return 0


def rewrite_tensors(
    source: Path, target: Path, replaced: Mapping[str, TensorBytes], *, dropped: Container[str] = ()
) -> None:
    """Write a copy of a safetensors file with other values for some of its tensors, in the same order.

    Args:
        source: A valid file.
        target: The file to write.
        replaced: New values by name, of any dtype and shape; names that the file does not have are ignored.
        dropped: Names of tensors to leave out.
    """
    entries, start = read_header(source)
    in_order = sorted(entries.items(), key=lambda item: item[1]["data_offsets"])
    kept = {name: entry for name, entry in in_order if name not in dropped}
    header: dict[str, Any] = {_METADATA: {"format": "pt"}}
    end = 0
    for name, entry in kept.items():
        new = replaced.get(name)
        first, last = entry["data_offsets"]
        begin, end = end, end + (last - first if new is None else len(new.data))
        described = entry if new is None else {"dtype": new.dtype, "shape": list(new.shape)}
        header[name] = {**described, "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the data must be aligned
    with open(source, "rb") as old, open(target, "wb") as stream:
        stream.write(struct.pack("<Q", len(text)) + text)
        for name, entry in kept.items():
            if name in replaced:
                stream.write(replaced[name].data)
            else:
                first, last = entry["data_offsets"]
                _copy_range(old, stream, start + first, last - first)


def link_or_copy(source: Path, target: Path) -> None:
    """Create a hard link to a file, or a copy of it if the file system does not support links."""
    try:
        os.link(source.resolve(), target)  # the Hub's cache consists of symbolic links
    except OSError:
        shutil.copyfile(source, target)


def _copy_range(source: BinaryIO, target: BinaryIO, start: int, size: int) -> None:
    source.seek(start)
    while size:
        block = source.read(min(size, _BLOCK))
        if not block:
            raise OSError(errno.EIO, "the file to copy ended early", source.name)
        target.write(block)
        size -= len(block)
