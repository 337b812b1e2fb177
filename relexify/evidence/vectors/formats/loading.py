"""Load word vectors from a file of any supported format, recognised by its content."""

from __future__ import annotations

from pathlib import Path

from relexify.errors import InputError
from relexify.evidence.vectors.formats.fasttext import FASTTEXT_MAGIC, read_fasttext
from relexify.evidence.vectors.formats.word2vec import (
    is_word2vec_binary,
    open_vector_file,
    read_text_vectors,
    read_word2vec_binary,
)
from relexify.evidence.vectors.word_vectors import WordVectors, load_saved_vectors

__all__ = ["load_vectors"]

_GZIP = b"\x1f\x8b"
_ARCHIVES = {b"PK\x03\x04": "zip", b"\xfd7zX": "xz", b"BZh": "bzip2", b"\x28\xb5\x2f\xfd": "zstandard"}


def load_vectors(path: str | Path, *, limit: int | None = None) -> WordVectors:
    """Read word vectors: fastText `.bin`, `.vec` and `.vec.gz`, word2vec, GloVe, or a file of `WordVectors.save`.

    The content decides the format, not the name. fastText models and our own files are memory-mapped.

    Args:
        path: The file.
        limit: Keep this many words, the most frequent ones; all by default.

    Raises:
        InputError: There is no such file, or it cannot be read as vectors.
    """
    path = Path(path)
    if limit is not None and limit < 1:
        raise InputError(f"A limit of {limit} words leaves no vectors: give 1 or more")
    start = _first_bytes(path)
    if start.startswith(FASTTEXT_MAGIC):
        vectors = read_fasttext(path)
        return vectors if limit is None else vectors.most_frequent(limit)
    if start[8:9] == b"{":  # safetensors: eight bytes of header size, then json
        vectors = load_saved_vectors(path)
        return vectors if limit is None else vectors.most_frequent(limit)
    _reject_archives(path, start)
    if is_word2vec_binary(path):
        return read_word2vec_binary(path, limit=limit)
    return read_text_vectors(path, limit=limit)


def _first_bytes(path: Path) -> bytes:
    """Return the first bytes of a file, which must exist and not be empty."""
    if path.is_dir():
        raise InputError(f"{path} is a folder: give the file of word vectors inside it")
    if not path.exists():
        raise InputError(f"{path} does not exist: give a file of word vectors")
    try:
        with open(path, "rb") as stream:
            start = stream.read(16)
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}): check its permissions") from error
    if not start:
        raise InputError(f"{path} is empty: download it again")
    return start


def _reject_archives(path: Path, start: bytes) -> None:
    """Reject files that must be unpacked first; gzipped text need not be."""
    for magic, name in _ARCHIVES.items():
        if start.startswith(magic):
            raise InputError(f"{path} is a {name} archive: unpack it and give the file inside")
    with open_vector_file(path) as stream:
        if start.startswith(_GZIP) and stream.read(4) == FASTTEXT_MAGIC:
            raise InputError(f"{path} is a gzipped fastText model: unpack it with gunzip, because it is memory-mapped")
