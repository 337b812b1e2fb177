"""The vocabulary of a tokenizer: its tokens, their canonical forms, and the special ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, TypeAlias

from tokenizers import Tokenizer

from relexify.errors import VocabularyError
from relexify.tokens.forms import Spelling, TokenForm, spelling_of
from relexify.tokens.roles import roles_of

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

__all__ = [
    "LARGEST_VOCABULARY",
    "AnyTokenizer",
    "AnyVocabulary",
    "Vocabulary",
    "backend_of",
    "copy_backend",
    "vocabulary_of",
]

LARGEST_VOCABULARY = 1 << 22
"""In tokens: several times the vocabulary of the largest models. Limited because tokenizers allocates it in advance."""

AnyTokenizer: TypeAlias = "PreTrainedTokenizerFast | Tokenizer"
"""A fast tokenizer of transformers, or a bare one of `tokenizers`."""
AnyVocabulary: TypeAlias = "AnyTokenizer | Vocabulary"
"""A vocabulary, or a tokenizer that has one."""


@dataclass(frozen=True)
class Vocabulary:
    """The tokens of a tokenizer.

    Attributes:
        tokens: Spelling of each token, by id; `""` for an id without a token.
        forms: Canonical form of each token, by id.
        special: Ids of special tokens, by role (`bos`, `eos`, `pad`, `mask`, …).
        spelling: How the tokenizer spells tokens.
    """

    tokens: tuple[str, ...]
    forms: tuple[TokenForm, ...]
    special: Mapping[str, int]
    spelling: Spelling

    def __len__(self) -> int:
        return len(self.tokens)

    def __repr__(self) -> str:
        return f"Vocabulary({len(self):,} tokens, {self.spelling.family.value})"

    @cached_property
    def ids(self) -> dict[str, int]:
        """Id of every token by its spelling."""
        return {token: id for id, token in enumerate(self.tokens) if token}

    @cached_property
    def ids_by_form(self) -> dict[TokenForm, int]:
        """Id of every form. If several tokens have the same form: the first one that is not the name of a byte."""
        ids = (id for id, token in enumerate(self.tokens) if token)
        best_last = sorted(ids, key=lambda id: (self.spelling.is_byte_name(self.tokens[id]), id), reverse=True)
        return {self.forms[id]: id for id in best_last}

    def same(self, other: Vocabulary, id: int) -> int | None:
        """Return the token of this vocabulary with the same form as token `id` of another vocabulary, if any."""
        if self.spelling == other.spelling and other.tokens[id] in self.ids:
            return self.ids[other.tokens[id]]
        form = other.forms[id]
        # For a character that is always a separate word, `starts_word` carries no information.
        if self.spelling.isolates(form.text):
            return self.ids_by_form.get(form._replace(starts_word=True))
        if other.spelling.isolates(form.text):
            inside = self.ids_by_form.get(form._replace(starts_word=False))
            return self.ids_by_form.get(form) if inside is None else inside
        return self.ids_by_form.get(form)

    def find(self, word: str) -> list[int]:
        """Return the ids of the tokens whose spelling or text is `word`, best match first."""
        exact = [self.ids[word]] if word in self.ids else []
        text = word.removeprefix(" ")
        forms = [TokenForm(text, starts_word=True)]
        if not word.startswith(" "):
            forms.append(TokenForm(text))
        return list(dict.fromkeys(exact + [self.ids_by_form[form] for form in forms if form in self.ids_by_form]))


def vocabulary_of(tokenizer: AnyVocabulary) -> Vocabulary:
    """Return the vocabulary of a tokenizer; a vocabulary is returned unchanged.

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
    outside_model = {id for id, token in added.items() if backend.model.token_to_id(token.content) != id}
    forms = _read_forms(tuple(tokens), frozenset(special), frozenset(outside_model), spelling)
    return Vocabulary(tuple(tokens), forms, roles_of(tokenizer, backend), spelling)


# Cached, because a transfer needs the same two vocabularies about twenty times, and 50,000 tokens take half a second.
@lru_cache(maxsize=4)
def _read_forms(
    tokens: tuple[str, ...], special: frozenset[int], outside_model: frozenset[int], spelling: Spelling
) -> tuple[TokenForm, ...]:
    """Return the canonical forms of tokens.

    Args:
        tokens: The tokens, by id; `""` for an id without a token.
        special: Ids of special tokens.
        outside_model: Ids of added tokens that are not in the vocabulary of the tokenizer's model.
        spelling: How the tokenizer spells tokens.
    """
    forms: list[TokenForm] = []
    for id, token in enumerate(tokens):
        if id in special or not token:
            forms.append(TokenForm(token, is_special=True))
        elif id in outside_model:
            forms.append(spelling.read_added(token))
        else:
            forms.append(spelling.read(token))
    return tuple(forms)


def backend_of(tokenizer: AnyTokenizer) -> Tokenizer:
    """Return the `tokenizers.Tokenizer` inside a tokenizer.

    Raises:
        VocabularyError: The tokenizer has no fast backend.
    """
    backend: Tokenizer = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if not hasattr(backend, "get_added_tokens_decoder"):
        raise VocabularyError(
            f"{type(tokenizer).__name__} has no fast backend: load it with AutoTokenizer.from_pretrained(…), "
            "or convert it to a tokenizer.json first"
        )
    return backend


def copy_backend(tokenizer: AnyTokenizer) -> Tokenizer:
    """Return a copy of the backend without truncation and padding, which earlier calls may have enabled.

    Raises:
        VocabularyError: The tokenizer has no fast backend.
    """
    copy = Tokenizer.from_str(backend_of(tokenizer).to_str())
    copy.no_truncation()
    copy.no_padding()
    return copy
