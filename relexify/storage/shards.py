"""Parts of a result that several processes compute, on one host or on several that share the cache.

A part is complete and intact, or counts as missing. No process waits for another: a process that needs a missing part
computes it. A process that dies, or has another cache, therefore costs only time.
"""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import dataclass
from pathlib import Path

from relexify.storage.files import write_file

__all__ = ["Shards"]

_DIGEST_BYTES = 16


@dataclass(frozen=True)
class Shards:
    """A folder of parts.

    Attributes:
        folder: The folder; it need not exist.
    """

    folder: Path

    def write(self, name: str, content: bytes) -> None:
        """Write a part: its hash, then its content.

        Raises:
            OutputError: The part cannot be written.
        """
        write_file(self._path(name), _hash(content) + content)

    def read(self, name: str) -> bytes | None:
        """Return a part; None if it is missing or damaged."""
        try:
            found = self._path(name).read_bytes()
        except OSError:
            return None
        digest, content = found[:_DIGEST_BYTES], found[_DIGEST_BYTES:]
        return content if _hash(content) == digest else None

    def exist(self) -> bool:
        """Whether the folder exists."""
        try:
            return self.folder.exists()
        except OSError:  # the cache cannot be searched
            return False

    def remove(self) -> None:
        """Remove all parts."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.bin"


def _hash(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=_DIGEST_BYTES).digest()
