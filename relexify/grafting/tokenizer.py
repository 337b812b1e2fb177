"""Train a tokenizer like a model's own, by name, and save it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from relexify.grafting.loading import load_tokenizer
from relexify.progress import Progress, silent
from relexify.text import Corpus
from relexify.tokens import retrained

__all__ = ["save_tokenizer", "train_tokenizer"]


def train_tokenizer(corpus: str | Path | Corpus, *, like: Any, vocab_size: int, progress: Progress = silent) -> Any:
    """Train a tokenizer for the language of a corpus, built like another tokenizer.

    Args:
        corpus: A `Corpus`, or what `Corpus.open` takes: text, compressed text, jsonl, parquet, a folder, `hf:NAME`.
        like: A transformers tokenizer, or the name of one.
        vocab_size: Tokens of the new vocabulary, special ones included.
        progress: Told about bytes read.
    """
    text = corpus if isinstance(corpus, Corpus) else Corpus.open(corpus)
    pattern = load_tokenizer(like) if isinstance(like, str | Path) else like
    return retrained(pattern, lambda: iter(text), vocab_size, size=text.size(), progress=progress)


def save_tokenizer(tokenizer: Any, folder: Path) -> None:
    """Write a tokenizer's files.

    Raises:
        OSError: They cannot be written; the library below tells so in an exception of no kind.
    """
    try:
        tokenizer.save_pretrained(folder)
    except Exception as error:
        if type(error) is Exception:
            raise OSError(str(error)) from error
        raise
