"""A tokenizer for the new language, built like the old one."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tokenizers import AddedToken, Tokenizer, pre_tokenizers

from relexify.errors import EvidenceError, InputError
from relexify.progress import track
from relexify.tokens.forms import METASPACE, TokenizerFamily
from relexify.tokens.vocabulary import backend_of, vocabulary_of
from relexify.tokens.wordpiece import train_wordpiece_like

__all__ = ["train_tokenizer_like"]

BATCH = 1000
_BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
_PLACEHOLDER = re.compile(r"<unused_?\d+>")


def train_tokenizer_like(
    like: Any, lines: Callable[[], Iterable[str]], vocab_size: int, *, size: int | None = None
) -> Any:
    """Train a tokenizer of the same family, normaliser, pre-tokeniser, post-processor and special tokens as another.

    Tokens that were added to the old one without being special (`<tool_call>`) are added to the new one too, but for
    placeholders (`<unused7>`).

    Args:
        like: A transformers tokenizer with a fast backend.
        lines: Gives the text of the new language anew at each call.
        vocab_size: Tokens of the new vocabulary, special and added ones included.
        size: Bytes of the text, for the progress bar.

    Returns:
        A tokenizer of the same class.

    Raises:
        InputError: The vocabulary is too small for the special tokens and the alphabet.
        EvidenceError: The text is too short to give a vocabulary at all.
    """
    spelling = vocabulary_of(like).spelling
    added = _added(like)
    reserved = len(added) + (len(_BYTES) if spelling.byte_fallback else 0)
    smallest = _smallest(like, spelling.family) + reserved
    if vocab_size < smallest:
        raise InputError(f"a vocabulary of {vocab_size} tokens is too small: this tokenizer needs at least {smallest}")
    with track("training the tokenizer", size) as advance:
        if type(backend_of(like).model).__name__ == "WordPiece":
            trained = train_wordpiece_like(like, lines, lambda text: _batches(text, advance), vocab_size - reserved)
        else:
            trained = _trained(like, spelling.family, _batches(lines(), advance), vocab_size - reserved)
    if spelling.byte_fallback:
        _add_bytes(trained)
    trained.add_tokens(added)
    _renumber_frame(trained)
    if len(vocabulary_of(trained)) <= smallest:
        raise EvidenceError("the text is too short to learn tokens from: give at least some thousand words")
    trained.chat_template = getattr(like, "chat_template", None)
    return trained


def _smallest(like: Any, family: TokenizerFamily) -> int:
    special: int = sum(token.special for token in backend_of(like).get_added_tokens_decoder().values())
    return special + (256 if family is TokenizerFamily.BYTE_LEVEL else 1)


def _added(like: Any) -> list[AddedToken]:
    """The tokens added to the old one that training drops: all but special ones, and none of Unigram's."""
    backend = backend_of(like)
    if type(backend.model).__name__ == "Unigram":
        return []
    tokens = backend.get_added_tokens_decoder().values()
    return [token for token in tokens if not token.special and not _PLACEHOLDER.fullmatch(token.content)]


def _trained(like: Any, family: TokenizerFamily, batches: Iterator[list[str]], vocab_size: int) -> Any:
    """Train, and see to it that the tokens of SentencePiece's BPE end where words end.

    Llama 2, Mistral and Gemma do not cut a text before their model sees it, and leave it to the merges that no token
    reaches over a space. Merges are learned that way only from text that is cut.
    """
    original = backend_of(like).pre_tokenizer
    if family is TokenizerFamily.METASPACE and type(backend_of(like).model).__name__ == "BPE":
        like = copy.deepcopy(like)
        words = pre_tokenizers.Split(METASPACE, "merged_with_next")
        backend_of(like).pre_tokenizer = pre_tokenizers.Sequence([*([original] if original else []), words])
    trained = like.train_new_from_iterator(batches, vocab_size, show_progress=False)
    backend_of(trained).pre_tokenizer = original
    return trained


def _renumber_frame(trained: Any) -> None:
    """Give the special tokens that the post-processor puts around a text their new ids, however deep they stand."""
    state = json.loads(backend_of(trained).to_str())
    _renumber(state["post_processor"], backend_of(trained).token_to_id)
    backend_of(trained).post_processor = Tokenizer.from_str(json.dumps(state)).post_processor


def _renumber(component: Any, id_of: Callable[[str], int | None]) -> None:
    if not isinstance(component, dict):
        return
    for token in component.get("special_tokens", {}).values():
        token["ids"] = [id_of(name) for name in token["tokens"]]
    for end in {"cls", "sep"} & component.keys():
        component[end] = [component[end][0], id_of(component[end][0])]
    for processor in component.get("processors", []):
        _renumber(processor, id_of)


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
