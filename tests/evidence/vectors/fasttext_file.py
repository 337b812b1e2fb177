"""Small files in fastText's format, written by hand from its documented layout."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

import numpy as np


@dataclass
class FastTextFile:
    """The content of a `.bin`; change a field to damage the file."""

    words: list[bytes] = field(default_factory=lambda: [b"</s>", b"haus", "häuser".encode(), "家".encode()])
    labels: list[bytes] = field(default_factory=list)
    magic: int = 793712314
    version: int = 12
    width: int = 5
    model: int = 2
    buckets: int = 50
    minimum: int = 2
    maximum: int = 4
    pruned: int = -1
    quantised: bool = False
    entries: int | None = None
    rows: int | None = None
    columns: int | None = None

    def matrix(self) -> np.ndarray:
        return np.random.default_rng(3).standard_normal((len(self.words) + self.buckets, self.width), np.float32)

    def content(self, matrix: np.ndarray | None = None) -> bytes:
        matrix = self.matrix() if matrix is None else matrix
        entries = len(self.words) + len(self.labels) if self.entries is None else self.entries
        options = (self.width, 5, 5, 1, 5, 1, 2, self.model, self.buckets, self.minimum, self.maximum, 100, 1e-4)
        content = struct.pack("<2i12id", self.magic, self.version, *options)
        content += struct.pack("<3i2q", entries, len(self.words), len(self.labels), 1000, self.pruned)
        for index, (word, kind) in enumerate([(w, 0) for w in self.words] + [(w, 1) for w in self.labels]):
            content += word + b"\0" + struct.pack("<qb", 300 - index, kind)
        rows = len(matrix) if self.rows is None else self.rows
        columns = self.width if self.columns is None else self.columns
        return content + struct.pack("<?2q", self.quantised, rows, columns) + matrix.tobytes()
