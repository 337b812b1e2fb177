"""Load word vectors from a file of any supported format, recognised by its content."""

from __future__ import annotations

from pathlib import Path

from relexify.errors import InputError
from relexify.evidence.vectors.formats.fasttext import FASTTEXT_MAGIC, read_fasttext
from relexify.evidence.vectors.formats.word2vec import is_word2vec_binary, read_text_vectors, read_word2vec_binary
from relexify.evidence.vectors.word_vectors import WordVectors, load_saved_vectors
from relexify.text.decoding import compression_of, open_decompressed, read_first_bytes

__all__ = ["load_vectors"]


def load_vectors(path: str | Path, *, limit: int | None = None) -> WordVectors:
    """Read word vectors: fastText `.bin` and `.vec`, word2vec, GloVe, or a file of `WordVectors.save`.

    The format is recognised by the content, not by the name. fastText models and relexify's files are memory-mapped;
    other formats may be compressed (gz, xz, bz2, zst).

    Args:
        path: The file.
        limit: Keep only this many of the most frequent words; all by default.

    Raises:
        InputError: The file does not exist, or cannot be read as vectors.
    """
    path = Path(path)
    if limit is not None and limit < 1:
        raise InputError(f"A limit of {limit} words leaves no vectors: give 1 or more")
    if path.is_dir():
        raise InputError(f"{path} is a folder: give the file of word vectors inside it")
    start = read_first_bytes(path)
    if not start:
        raise InputError(f"{path} is empty: download it again")
    is_fasttext = start.startswith(FASTTEXT_MAGIC)
    if is_fasttext or start[8:9] == b"{":  # safetensors: eight bytes of header size, then json
        vectors = read_fasttext(path) if is_fasttext else load_saved_vectors(path)
        return vectors if limit is None else vectors.most_frequent(limit)
    if compression_of(path):
        with open_decompressed(path) as stream:
            if stream.read(4) == FASTTEXT_MAGIC:
                raise InputError(f"{path} is a compressed fastText model: unpack it, because it is memory-mapped")
    if is_word2vec_binary(path):
        return read_word2vec_binary(path, limit=limit)
    return read_text_vectors(path, limit=limit)
