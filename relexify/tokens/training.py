"""A tokenizer for the new language, built like the old one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tokenizers import Tokenizer

from relexify.errors import EvidenceError, InputError
from relexify.progress import Progress, silent
from relexify.tokens.forms import Family
from relexify.tokens.vocabulary import backend_of, vocabulary_of

__all__ = ["retrained"]

BATCH = 1000
_BYTES = [f"<0x{byte:02X}>" for byte in range(256)]


def retrained(
    like: Any,
    lines: Callable[[], Iterable[str]],
    vocab_size: int,
    *,
    size: int | None = None,
    progress: Progress = silent,
) -> Any:
    """Train a tokenizer of the same family, normaliser, pre-tokeniser, post-processor and special tokens as another.

    Args:
        like: A transformers tokenizer with a fast backend.
        lines: Gives the text of the new language anew at each call.
        vocab_size: Tokens of the new vocabulary, special ones included.
        size: Bytes of the text, for the progress bar.
        progress: Told about bytes read.

    Returns:
        A tokenizer of the same class.

    Raises:
        InputError: The vocabulary is too small for the special tokens and the alphabet.
        EvidenceError: The text is too short to give a vocabulary at all.
    """
    spelling = vocabulary_of(like).spelling
    reserved = len(_BYTES) if spelling.byte_fallback else 0
    smallest = _smallest(like, spelling.family) + reserved
    if vocab_size < smallest:
        raise InputError(f"a vocabulary of {vocab_size} tokens is too small: this tokenizer needs at least {smallest}")
    with progress("training the tokenizer", size) as advance:
        trained = like.train_new_from_iterator(_batches(lines(), advance), vocab_size - reserved, show_progress=False)
    if reserved:
        _add_bytes(trained)
    if len(vocabulary_of(trained)) <= smallest:
        raise EvidenceError("the text is too short to learn tokens from: give at least some thousand words")
    trained.chat_template = getattr(like, "chat_template", None)
    return trained


def _smallest(like: Any, family: Family) -> int:
    special: int = sum(token.special for token in backend_of(like).get_added_tokens_decoder().values())
    return special + (256 if family is Family.BYTE_LEVEL else 1)


def _batches(lines: Iterable[str], advance: Callable[[int], None]) -> Iterator[list[str]]:
    batch: list[str] = []
    for line in lines:
        batch.append(line)
        if len(batch) == BATCH:
            yield batch
            advance(_bytes(batch))
            batch = []
    if batch:
        yield batch
        advance(_bytes(batch))


def _bytes(lines: list[str]) -> int:
    return sum(len(line.encode("utf-8", "replace")) + 1 for line in lines)


def _add_bytes(trained: Any) -> None:
    """Append the 256 byte tokens, which training leaves out, so that byte fallback works again."""
    backend = backend_of(trained)
    state = json.loads(backend.to_str())
    vocabulary = state["model"]["vocab"]
    missing = [byte for byte in _BYTES if backend.token_to_id(byte) is None]
    if isinstance(vocabulary, dict):
        start = max(backend.get_vocab(with_added_tokens=True).values()) + 1
        vocabulary.update({byte: start + place for place, byte in enumerate(missing)})
    else:
        lowest = min(score for _, score in vocabulary)
        vocabulary.extend([byte, lowest - 10.0] for byte in missing)
    trained._tokenizer = Tokenizer.from_str(json.dumps(state))
