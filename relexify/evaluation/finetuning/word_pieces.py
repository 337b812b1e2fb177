"""Words that were split beforehand, as pieces that a model reads, and back: what the model says of each word.

Every word is cut as it would be after a space in running text, the first one too, so that a tokenizer which marks the
starts of words need not be told `add_prefix_space`. The first piece of a word carries its tag. A word without pieces
(a lone U+200B) and a word beyond the longest sequence carry none, and still count in a score.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tokenizers import Tokenizer

from relexify.errors import InputError
from relexify.pretrained.architecture import IGNORED, encoder_frame
from relexify.tokens import backend_of, encode_words, make_encodable

__all__ = ["WordPieces", "cut_sentences", "labels_of", "tags_of"]

BATCH = 10_000


@dataclass(frozen=True)
class WordPieces:
    """A sentence as a model reads it.

    Attributes:
        ids: Of all pieces, with the special tokens around them.
        first: For each word, the place of its first piece in `ids`; None where it has none, or was cut off.
    """

    ids: tuple[int, ...]
    first: tuple[int | None, ...]


def cut_sentences(tokenizer: Any, sentences: Sequence[Sequence[str]], *, length: int) -> list[WordPieces]:
    """Cut sentences of words into pieces.

    Args:
        tokenizer: A transformers tokenizer with a fast backend; it is not changed.
        sentences: Words of each; a sentence may have none.
        length: The longest sequence, special tokens included.

    Raises:
        InputError: There is no room for a piece beside the special tokens.
        VocabularyError: The tokenizer has no fast backend.
    """
    before, after = encoder_frame(tokenizer)
    room = length - len(before) - len(after)
    if room < 1:
        raise InputError(f"length = {length} leaves no room for words beside special tokens: give a longer one")
    pieces = _pieces_of_words(tokenizer, sorted({word for sentence in sentences for word in sentence}))
    return [_cut(sentence, pieces, before, after, room) for sentence in sentences]


def labels_of(sentence: WordPieces, labels: Sequence[int]) -> list[int]:
    """A label for each piece: that of the word for its first one, `IGNORED` for all others.

    Args:
        sentence: The pieces.
        labels: One for each word; `IGNORED` for a word that is not to be learnt from.
    """
    result = [IGNORED] * len(sentence.ids)
    for place, label in zip(sentence.first, labels, strict=True):
        if place is not None:
            result[place] = label
    return result


def tags_of(sentence: WordPieces, predicted: Sequence[int], tags: Sequence[str], *, default: str) -> list[str]:
    """What was said of each word.

    Args:
        sentence: The pieces.
        predicted: A number for each piece; what stands beyond the sentence is padding.
        tags: By number.
        default: For words that no piece speaks for.
    """
    return [default if place is None else tags[int(predicted[place])] for place in sentence.first]


def _pieces_of_words(tokenizer: Any, words: Sequence[str]) -> dict[str, list[int]]:
    """The pieces of each distinct word after a space; a word that spells a special token is text like all others."""
    backend = Tokenizer.from_str(backend_of(tokenizer).to_str())
    backend.no_truncation()
    backend.no_padding()
    backend.encode_special_tokens = True
    pieces: dict[str, list[int]] = {}
    for start in range(0, len(words), BATCH):
        batch = words[start : start + BATCH]
        encodings = encode_words(backend, [make_encodable(word)[0] for word in batch], after_space=True)
        pieces.update(zip(batch, encodings, strict=True))
    return pieces


def _cut(
    words: Sequence[str], pieces: dict[str, list[int]], before: list[int], after: list[int], room: int
) -> WordPieces:
    ids: list[int] = []
    first: list[int | None] = []
    for word in words:
        found = pieces[word]
        first.append(len(before) + len(ids) if found and len(ids) < room else None)
        ids.extend(found[: max(0, room - len(ids))])
    return WordPieces((*before, *ids, *after), tuple(first))
