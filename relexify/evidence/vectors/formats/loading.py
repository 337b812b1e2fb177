"""Word vectors from any file, told apart by content, and to a file of our own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from relexify.errors import InputError
from relexify.evidence.vectors.formats.fasttext import FASTTEXT_MAGIC, read_fasttext
from relexify.evidence.vectors.formats.row_store import open_vector_file
from relexify.evidence.vectors.formats.text import read_text_vectors
from relexify.evidence.vectors.formats.word2vec import is_word2vec_binary, read_word2vec_binary
from relexify.evidence.vectors.ngrams import Ngrams
from relexify.evidence.vectors.word_vectors import WordVectors
from relexify.storage.files import load_arrays, save_arrays

__all__ = ["load_vectors", "save_vectors"]

_KIND = "word vectors"
_GZIP = b"\x1f\x8b"
_ARCHIVES = {b"PK\x03\x04": "zip", b"\xfd7zX": "xz", b"BZh": "bzip2", b"\x28\xb5\x2f\xfd": "zstandard"}


def load_vectors(path: str | Path, *, limit: int | None = None) -> WordVectors:
    """Read word vectors: fastText `.bin`, `.vec` and `.vec.gz`, word2vec and GloVe, or what `save_vectors` wrote.

    The format is told from the content, not from the name. fastText models and our own files are memory-mapped.

    Args:
        path: The file.
        limit: Keep so many words, the most frequent ones; all if `None`.

    Raises:
        InputError: There is no such file, or it cannot be read as vectors.
    """
    path = Path(path)
    if limit is not None and limit < 1:
        raise InputError(f"A limit of {limit} words leaves no vectors: give 1 or more")
    start = _first_bytes(path)
    if start.startswith(FASTTEXT_MAGIC):
        return _limited(read_fasttext(path), limit)
    if start[8:9] == b"{":  # safetensors: eight bytes of header size, then json
        return _limited(_load_saved(path), limit)
    _refuse_packed(path, start)
    if is_word2vec_binary(path):
        return read_word2vec_binary(path, limit=limit)
    return read_text_vectors(path, limit=limit)


def save_vectors(vectors: WordVectors, path: str | Path, metadata: Mapping[str, Any] | None = None) -> Path:
    """Write word vectors as one safetensors file.

    Args:
        vectors: The vectors; a rotation is stored beside the rows, not applied.
        path: The file to write.
        metadata: What else to keep, such as the provenance.
    """
    text, offsets = _pack_words(vectors.words)
    arrays = {"matrix": vectors.matrix, "words": text, "offsets": offsets}
    described: dict[str, Any] = {"kind": _KIND, "ngrams": None}
    if vectors.counts is not None:
        arrays["counts"] = vectors.counts.astype(np.int64)
    if vectors.rotation is not None:
        arrays["rotation"] = vectors.rotation
    if (ngrams := vectors.ngrams) is not None:
        arrays["ngrams"] = ngrams.matrix
        described["ngrams"] = {"minimum": ngrams.minimum, "maximum": ngrams.maximum, "buckets": ngrams.buckets}
        if ngrams.known is not None:
            arrays["known"] = ngrams.known.astype(np.int64)
    return save_arrays(path, arrays, {**(metadata or {}), **described})


def _first_bytes(path: Path) -> bytes:
    """The first bytes of a file that is there and not empty."""
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
        raise InputError(f"{path} is empty: get it anew")
    return start


def _refuse_packed(path: Path, start: bytes) -> None:
    """Say what to do with a file that must be unpacked first; gzipped text need not be."""
    for magic, name in _ARCHIVES.items():
        if start.startswith(magic):
            raise InputError(f"{path} is a {name} archive: unpack it and give the file inside")
    with open_vector_file(path) as stream:
        if start.startswith(_GZIP) and stream.read(4) == FASTTEXT_MAGIC:
            raise InputError(f"{path} is a gzipped fastText model: unpack it with gunzip, since it is memory-mapped")


def _limited(vectors: WordVectors, limit: int | None) -> WordVectors:
    return vectors if limit is None else vectors.most_frequent(limit)


def _load_saved(path: Path) -> WordVectors:
    """Read what `save_vectors` wrote."""
    arrays, metadata = load_arrays(path, _KIND)
    try:
        words = _unpack_words(arrays["words"], arrays["offsets"])
        matrix, counts, rotation = arrays["matrix"], arrays.get("counts"), arrays.get("rotation")
        described = metadata["ngrams"]
        ngrams = Ngrams(arrays["ngrams"], **described, known=arrays.get("known")) if described else None
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path} is not a complete file of word vectors ({error}): write it anew") from error
    _check_shapes(path, matrix, rotation, ngrams)
    if len(words) != len(matrix) or (counts is not None and len(counts) != len(words)):
        raise InputError(f"{path} holds {len(words)} words and {len(matrix)} rows: write it anew")
    return WordVectors(words, matrix, counts, ngrams, rotation)


def _check_shapes(path: Path, matrix: np.ndarray, rotation: np.ndarray | None, ngrams: Ngrams | None) -> None:
    """Make sure that the arrays of a file fit each other, since lookups trust them."""
    valid = matrix.ndim == 2 and matrix.dtype.kind == "f"
    if valid and rotation is not None:
        valid = rotation.ndim == 2 and rotation.dtype.kind == "f" and len(rotation) == matrix.shape[1]
    if valid and ngrams is not None:
        numbers = (ngrams.minimum, ngrams.maximum, ngrams.buckets)
        rows = ngrams.buckets if ngrams.known is None else len(ngrams.known)
        valid = all(type(number) is int and 0 < number < 2**32 for number in numbers) and (
            ngrams.minimum <= ngrams.maximum and ngrams.matrix.shape == (rows, matrix.shape[1])
        )
    if not valid:
        raise InputError(f"{path} is damaged (matrix, rotation and n-grams do not fit each other): write it again")


def _pack_words(words: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """All words as one stretch of UTF-8 [bytes], and where each starts and the last ends [words + 1]."""
    encoded = [word.encode("utf-8", "surrogatepass") for word in words]
    lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
    return np.frombuffer(b"".join(encoded), np.uint8), np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def _unpack_words(text: np.ndarray, offsets: np.ndarray) -> list[str]:
    """The words that `_pack_words` packed."""
    data, ends = text.tobytes(), offsets.tolist()
    return [data[start:end].decode("utf-8", "surrogatepass") for start, end in pairwise(ends)]
