"""The tokens of a tokenizer, with what they say and which of them steer the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from relexify.errors import VocabularyError
from relexify.tokens.forms import Spelling, TokenForm, spelling_of
from relexify.tokens.roles import roles_of

__all__ = ["Vocabulary", "backend_of", "vocabulary_of"]


@dataclass(frozen=True)
class Vocabulary:
    """The tokens of a tokenizer.

    Attributes:
        tokens: Their spelling, by id; an id that no token has is `""`.
        forms: Their canonical forms, by id.
        special: Ids of the tokens that play a role, by role (`bos`, `eos`, `pad`, `mask`, …).
        spelling: How the tokenizer writes tokens.
    """

    tokens: tuple[str, ...]
    forms: tuple[TokenForm, ...]
    special: Mapping[str, int]
    spelling: Spelling

    def __len__(self) -> int:
        return len(self.tokens)

    @cached_property
    def ids(self) -> dict[str, int]:
        """Id of every token by its spelling."""
        return {token: id for id, token in enumerate(self.tokens) if token}

    @cached_property
    def ids_by_form(self) -> dict[TokenForm, int]:
        """Id of every form; where several tokens say the same, the first that is not the name of a byte."""
        ids = (id for id, token in enumerate(self.tokens) if token)
        best_last = sorted(ids, key=lambda id: (self.spelling.is_byte_name(self.tokens[id]), id), reverse=True)
        return {self.forms[id]: id for id in best_last}

    def same(self, other: Vocabulary, id: int) -> int | None:
        """The token of this vocabulary that says what token `id` of another one says."""
        if self.spelling == other.spelling and other.tokens[id] in self.ids:
            return self.ids[other.tokens[id]]
        return self.ids_by_form.get(other.forms[id])

    def find(self, word: str) -> list[int]:
        """Ids of the tokens that are spelled `word` or write it, best match first."""
        exact = [self.ids[word]] if word in self.ids else []
        text = word.removeprefix(" ")
        written = [TokenForm(text, starts_word=True), TokenForm(text)]
        written = written if not word.startswith(" ") else written[:1]
        return list(dict.fromkeys(exact + [self.ids_by_form[form] for form in written if form in self.ids_by_form]))


def vocabulary_of(tokenizer: Any) -> Vocabulary:
    """Read the vocabulary of a transformers tokenizer or a `tokenizers.Tokenizer`.

    Raises:
        VocabularyError: The tokenizer has no `tokenizers` backend, or is empty.
    """
    if isinstance(tokenizer, Vocabulary):
        return tokenizer
    backend = backend_of(tokenizer)
    ids = backend.get_vocab(with_added_tokens=True)
    if not ids:
        raise VocabularyError("the tokenizer has no tokens: train it first")
    added = backend.get_added_tokens_decoder()
    spelling = spelling_of(backend)
    tokens = [""] * (max(ids.values()) + 1)
    for token, id in ids.items():
        tokens[id] = token
    special = {id for id, token in added.items() if token.special} | set(getattr(tokenizer, "all_special_ids", ()))
    outside = added.keys() - set(backend.get_vocab(with_added_tokens=False).values())
    readers = (spelling.read_added if id in outside else spelling.read for id in range(len(tokens)))
    forms = tuple(
        TokenForm(token, is_special=True) if id in special or not token else read(token)
        for id, (token, read) in enumerate(zip(tokens, readers, strict=True))
    )
    return Vocabulary(tuple(tokens), forms, roles_of(tokenizer, backend), spelling)


def backend_of(tokenizer: Any) -> Any:
    """The `tokenizers.Tokenizer` inside a tokenizer.

    Raises:
        VocabularyError: There is none.
    """
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if not hasattr(backend, "get_added_tokens_decoder"):
        raise VocabularyError(
            f"{type(tokenizer).__name__} has no fast backend: load it with AutoTokenizer.from_pretrained(…), "
            "or convert it to a tokenizer.json first"
        )
    return backend
