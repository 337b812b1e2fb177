"""Which reader a dictionary needs, told from its name and its first bytes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from relexify.errors import InputError
from relexify.evidence.lexicon.columns import read_two_columns
from relexify.evidence.lexicon.dictd import read_dictd
from relexify.evidence.lexicon.files import open_bytes
from relexify.evidence.lexicon.tei import read_tei

__all__ = ["read_pairs"]

TEI_SUFFIXES = (".tei", ".tei.gz", ".tei.xz")


def read_pairs(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the (left, right) pairs of a dictionary in any format that relexify reads.

    Args:
        path: A two-column text file, a TEI file, either file of a dictd pair, or a folder with one dictionary in it.

    Raises:
        InputError: There is nothing at `path`, or nothing that can be read.
    """
    if path.is_dir():
        path = _only_dictionary(path)
    if path.exists() and _is_dictd(path):
        return read_dictd(path)
    if path.name.endswith(TEI_SUFFIXES) or _is_xml(path):
        return read_tei(path)
    return read_two_columns(path)


def _is_dictd(path: Path) -> bool:
    """Whether a file is half of a dictd pair; a `.dict` on its own may just be somebody's two columns."""
    if path.name.endswith((".index", ".dict.dz")) or path.with_suffix(".index").is_file():
        return path.name.endswith((".index", ".dict", ".dict.dz"))
    return path.name.endswith(".dict") and b"00-database" in _beginning(path)


def _is_xml(path: Path) -> bool:
    start = _beginning(path).removeprefix(b"\xef\xbb\xbf").lstrip()
    return start.startswith((b"<?xml", b"<TEI", b"<!DOCTYPE"))


def _beginning(path: Path) -> bytes:
    with open_bytes(path) as stream:
        return stream.read(256)


def _only_dictionary(folder: Path) -> Path:
    """The dictionary of a folder; dictd's `.index` stands for its pair of files."""
    found = sorted(
        file for file in folder.iterdir() if file.name.endswith((".index", *TEI_SUFFIXES)) and file.is_file()
    )
    if not found:
        found = sorted(file for file in folder.iterdir() if file.name.endswith((".dict", ".dict.dz")))
    if len(found) == 1:
        return found[0]
    if not found:
        raise InputError(f"{folder} holds no dictionary (.index with .dict.dz, or .tei): give the file itself")
    names = ", ".join(file.name for file in found[:5])
    raise InputError(f"{folder} holds {len(found)} dictionaries ({names}): give the one that is meant")
