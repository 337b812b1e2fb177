"""Sizes and checksums of the files in a folder, to detect damaged folders."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["checksums", "find_damage"]

_BLOCK = 1 << 22


def checksums(folder: Path) -> dict[str, dict[str, int]]:
    """Return size and CRC-32 of every file below a folder, by relative name."""
    files = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()}
    return {name: {"size": path.stat().st_size, "crc32": _crc32(path)} for name, path in files.items()}


def find_damage(folder: Path, expected: Mapping[str, Any]) -> str:
    """Describe the first difference between a folder and its recorded checksums; empty if there is none."""
    try:
        for name, entry in expected.items():
            path = folder / name
            if not path.is_file():
                return f"{name} is missing"
            if path.stat().st_size != entry["size"]:
                return f"{name} has {path.stat().st_size} bytes instead of {entry['size']}"
            if _crc32(path) != entry["crc32"]:
                return f"{name} has a wrong checksum"
    except (OSError, KeyError, AttributeError, TypeError) as error:
        return f"its list of files cannot be read: {error}"
    return "" if expected else "its list of files is empty"


def _crc32(path: Path) -> int:
    value = 0
    with open(path, "rb") as stream:
        while block := stream.read(_BLOCK):
            value = zlib.crc32(block, value)
    return value
