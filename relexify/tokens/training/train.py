"""Train a tokenizer for the target language that is of the same type as the source tokenizer."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from tokenizers import AddedToken, Tokenizer, pre_tokenizers

from relexify.errors import EvidenceError, InputError, check_number, first_line
from relexify.progress import Advance, track
from relexify.tokens.editing.rebuilding import check_post_processor, renumber_special_tokens
from relexify.tokens.forms import METASPACE, TokenizerFamily, spelling_of
from relexify.tokens.training.wordpiece import train_wordpiece_like
from relexify.tokens.vocabulary import LARGEST_VOCABULARY, AnyTokenizer, backend_of, vocabulary_of

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

__all__ = ["check_vocabulary_size", "train_tokenizer_like"]

_BATCH = 1000  # lines
_BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
_PLACEHOLDER = re.compile(r"<unused_?\d+>")


def train_tokenizer_like(
    like: PreTrainedTokenizerFast, lines: Callable[[], Iterable[str]], vocab_size: int, *, size: int | None = None
) -> PreTrainedTokenizerFast:
    """Train a tokenizer of the same family, with the same normaliser, pre-tokeniser, post-processor and special tokens.

    Added tokens that are not special (`<tool_call>`) are also copied, except placeholders (`<unused7>`).

    Args:
        like: The source tokenizer.
        lines: Starts one pass over the text of the target language.
        vocab_size: Number of tokens, including special and added tokens.
        size: Size of the text in bytes, for the progress bar.

    Returns:
        A tokenizer of the same class.

    Raises:
        InputError: The vocabulary is too small for the special tokens and the alphabet.
        EvidenceError: The text is too short to train any vocabulary on.
        VocabularyError: The post-processor needs a token that one of the vocabularies does not have.
    """
    check_post_processor(like)
    smallest = check_vocabulary_size(like, vocab_size)
    spelling, added = vocabulary_of(like).spelling, _added_tokens(like)
    reserved = len(added) + (len(_BYTES) if spelling.byte_fallback else 0)
    with track("training the tokenizer", size) as advance:
        if type(backend_of(like).model).__name__ == "WordPiece":
            trained = train_wordpiece_like(like, lines, lambda text: _batches(text, advance), vocab_size - reserved)
        else:
            trained = _train(like, spelling.family, _batches(lines(), advance), vocab_size - reserved)
    if spelling.byte_fallback:
        _add_bytes(trained)
    trained.add_tokens(added)
    renumber_special_tokens(trained)
    if len(vocabulary_of(trained)) <= smallest:
        raise EvidenceError("the text is too short to train a vocabulary on: give at least some thousand words")
    trained.chat_template = getattr(like, "chat_template", None)
    return trained


def check_vocabulary_size(like: AnyTokenizer, vocab_size: int) -> int:
    """Validate the size of a vocabulary, and return the minimum: the number of special tokens, added tokens and bytes.

    Args:
        like: The tokenizer whose type the trained tokenizer will have.
        vocab_size: The size.

    Raises:
        InputError: The size is too small or too large.
    """
    check_number("vocab_size", vocab_size, 0, LARGEST_VOCABULARY)
    spelling = spelling_of(backend_of(like))
    special = sum(token.special for token in backend_of(like).get_added_tokens_decoder().values())
    alphabet = 256 if spelling.family is TokenizerFamily.BYTE_LEVEL else 1
    smallest = special + alphabet + len(_added_tokens(like)) + (len(_BYTES) if spelling.byte_fallback else 0)
    if vocab_size < smallest:
        raise InputError(f"a vocabulary of {vocab_size} tokens is too small: this tokenizer needs at least {smallest}")
    return smallest


def _added_tokens(like: AnyTokenizer) -> list[AddedToken]:
    """Return the added tokens that training drops: those that are not special. Unigram drops none."""
    backend = backend_of(like)
    if type(backend.model).__name__ == "Unigram":
        return []
    tokens = backend.get_added_tokens_decoder().values()
    return [token for token in tokens if not token.special and not _PLACEHOLDER.fullmatch(token.content)]


def _train(
    like: PreTrainedTokenizerFast, family: TokenizerFamily, batches: Iterator[list[str]], vocab_size: int
) -> PreTrainedTokenizerFast:
    """Train, and ensure that no token of SentencePiece's BPE spans several words.

    Llama 2, Mistral and Gemma have no pre-tokeniser that splits text into words, yet their merges never cross a space.
    To learn such merges, a pre-tokeniser that splits at spaces is added during training.
    """
    original = backend_of(like).pre_tokenizer
    if family is TokenizerFamily.METASPACE and type(backend_of(like).model).__name__ == "BPE":
        like = copy.deepcopy(like)
        words = pre_tokenizers.Split(METASPACE, "merged_with_next")
        backend_of(like).pre_tokenizer = pre_tokenizers.Sequence([*([original] if original else []), words])
    unknown = getattr(backend_of(like).model, "unk_token", None)
    kept = [token.content for token in backend_of(like).get_added_tokens_decoder().values() if token.special]
    special = None if unknown in (None, *kept) else [unknown]
    try:
        trained = like.train_new_from_iterator(batches, vocab_size, new_special_tokens=special, show_progress=False)
    except Exception as error:
        if type(error) is not Exception:  # tokenizers raises a plain Exception if Unigram cannot fit all characters
            raise
        raise InputError(f"{vocab_size} tokens are too few for this text ({first_line(error)}): give more") from error
    backend_of(trained).pre_tokenizer = original
    return trained


def _batches(lines: Iterable[str], advance: Advance) -> Iterator[list[str]]:
    batch: list[str] = []
    for line in lines:
        batch.append(line)
        if len(batch) == _BATCH:
            yield batch
            advance(_bytes(batch))
            batch = []
    if batch:
        yield batch
        advance(_bytes(batch))


def _bytes(lines: list[str]) -> int:
    return sum(len(line.encode("utf-8", "replace")) + 1 for line in lines)


def _add_bytes(trained: PreTrainedTokenizerFast) -> None:
    """Append the 256 byte tokens: byte fallback needs them, and training omits them."""
    backend = backend_of(trained)
    state = json.loads(backend.to_str())
    vocabulary = state["model"]["vocab"]
    missing = [byte for byte in _BYTES if backend.token_to_id(byte) is None]
    if isinstance(vocabulary, dict):
        start = max(backend.get_vocab(with_added_tokens=True).values()) + 1
        vocabulary.update({byte: start + index for index, byte in enumerate(missing)})
    else:
        # Score bytes far below all other pieces, so that they are used only where nothing else can spell the text.
        lowest = min(score for _, score in vocabulary)
        vocabulary.extend([byte, lowest - 10.0] for byte in missing)
    trained._tokenizer = Tokenizer.from_str(json.dumps(state))
