"""Split target tokens into source tokens, and encode words."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tokenizers import Tokenizer

from relexify.text import is_unspaced, make_encodable
from relexify.tokens.forms import METASPACE, TokenForm, TokenizerFamily
from relexify.tokens.normalisation import normaliser_of
from relexify.tokens.vocabulary import AnyTokenizer, Vocabulary, backend_of, copy_backend, vocabulary_of

__all__ = ["encode_sentences", "encode_words", "prepends_space", "source_pieces"]

BYTE_LEVEL_SPACE = "Ġ"


def source_pieces(source_tokenizer: AnyTokenizer, target: Vocabulary) -> list[list[int]]:
    """Split every target token into source tokens.

    The source tokenizer's model is called directly, with text in its own alphabet: a token inside a word is split into
    tokens inside a word, and a part of a character into bytes. A token in both vocabularies is its own only piece.
    Special tokens have no pieces, and neither have tokens of which the source can spell only the space.

    Returns:
        Source ids for each target id.
    """
    splitter = _PieceSplitter(copy_backend(source_tokenizer), vocabulary_of(source_tokenizer))
    pieces: list[list[int]] = []
    for id, form in enumerate(target.forms):
        if form.is_special or not form.text:
            pieces.append([])
        elif (same := splitter.source.same(target, id)) is not None:
            pieces.append([same])
        elif target.spelling.isolates(form.text):  # in running text, most ideographs follow another without a space
            pieces.append(splitter.split(form._replace(starts_word=False)))
        else:
            pieces.append(splitter.split(form))
    return pieces


def encode_words(
    tokenizer: AnyTokenizer, words: list[str], *, after_space: bool = False, exact_spaces: bool = False
) -> list[list[int]]:
    """Encode words as they would be in running text, without special tokens.

    Args:
        tokenizer: A transformers tokenizer or a `tokenizers.Tokenizer`.
        words: Single words; a leading space means that the word follows a space.
        after_space: Whether all words follow a space.
        exact_spaces: Some tokenizers add a space before every text. If true, words without a leading space are encoded
            without this added space; if false, these tokenizers encode all words as if after a space.
    """
    backend = backend_of(tokenizer)
    if backend.padding is not None or backend.truncation is not None:
        backend = copy_backend(backend)
    if prepends_space(backend):
        if exact_spaces and not after_space:
            return _encode_exactly(backend, words)
        words = [word.removeprefix(" ") for word in words]
    elif after_space:
        words = [f" {word.removeprefix(' ')}" for word in words]
    return [encoding.ids for encoding in backend.encode_batch_fast(words, add_special_tokens=False)]


def encode_sentences(tokenizer: AnyTokenizer, sentences: Sequence[Sequence[str]]) -> list[list[list[int]]]:
    """Encode the words of sentences, without special tokens; each distinct word is encoded once.

    Words are encoded as if they followed a space, unless most words of the sentence belong to a script without spaces.

    Returns:
        The ids of each word of each sentence.
    """
    spaced = [(sentence, not _is_unspaced(sentence)) for sentence in sentences]
    encoded: dict[bool, dict[str, list[int]]] = {}
    for after_space in (False, True):
        words = list(dict.fromkeys(word for sentence, space in spaced for word in sentence if space == after_space))
        texts = [make_encodable(word) for word in words]
        ids = encode_words(tokenizer, texts, after_space=after_space, exact_spaces=not after_space)
        encoded[after_space] = dict(zip(words, ids, strict=True))
    return [[encoded[space][word] if word else [] for word in sentence] for sentence, space in spaced]


def _encode_exactly(backend: Tokenizer, words: list[str]) -> list[list[int]]:
    """Encode words without the space that a tokenizer adds before every text, unless they have a leading space."""
    # Some tokenizers write a space only before a text. The part of a word after a space is therefore encoded as a text.
    parts = [word.partition(" ") for word in words]
    without_space = _without_added_space(backend) if any(first for first, _, _ in parts) else backend
    firsts, rests = (
        [encoding.ids for encoding in reader.encode_batch_fast(texts, add_special_tokens=False)]
        for reader, texts in (
            (without_space, [first for first, _, _ in parts]),
            (backend, [rest for _, _, rest in parts]),
        )
    )
    # An empty text may be encoded as the added space.
    return [
        [*(first_ids if first else ()), *(rest_ids if rest else ())]
        for (first, _, rest), first_ids, rest_ids in zip(parts, firsts, rests, strict=True)
    ]


def _without_added_space(backend: Tokenizer) -> Tokenizer:
    """Return a copy of a tokenizer that adds no space before a text; an equal copy if this cannot be switched off."""
    state = json.loads(backend.to_str())
    for name in ("normalizer", "pre_tokenizer"):
        state[name] = _adding_nothing(state[name])
    changed = Tokenizer.from_str(json.dumps(state))
    changed.encode_special_tokens = backend.encode_special_tokens
    return changed


def _adding_nothing(component: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return a normaliser or pre-tokeniser, as in `tokenizer.json`, that adds no space before a text."""
    if component is None or component["type"] == "Prepend":
        return None
    changed = component | {"prepend_scheme": "never", "add_prefix_space": False}
    for name in ("normalizers", "pretokenizers"):
        if name in component:
            changed[name] = [kept for part in component[name] if (kept := _adding_nothing(part)) is not None]
    return {key: value for key, value in changed.items() if key in component}


def _is_unspaced(sentence: Sequence[str]) -> bool:
    """Return whether, among words that begin with a letter, most begin with a letter of a script without spaces."""
    initials = [word[0] for word in sentence if word and (word[0].isalpha() or is_unspaced(word[0]))]
    return 2 * sum(map(is_unspaced, initials)) > len(initials)


def prepends_space(backend: Tokenizer) -> bool:
    """Whether the tokenizer itself adds a space before a text."""
    text = "a" if backend.normalizer is None else backend.normalizer.normalize_str("a")
    if backend.pre_tokenizer is not None:
        text = "".join(part for part, _ in backend.pre_tokenizer.pre_tokenize_str(text))
    return text.startswith((" ", METASPACE, BYTE_LEVEL_SPACE))


class _PieceSplitter:
    """Splits forms into pieces with the source tokenizer's model."""

    def __init__(self, backend: Tokenizer, source: Vocabulary) -> None:
        self.backend, self.source = backend, source
        self._unknown = source.special.get("unk", -1)
        self._normalise = normaliser_of(backend)

    def split(self, form: TokenForm) -> list[int]:
        """Return the known pieces of a form.

        A form without letters is also tried with or without a space before it, because not every family can spell both.
        """
        attempts = [self._split_exactly(form)]
        if form.is_neutral and not form.is_byte:
            attempts.append(self._split_exactly(form._replace(starts_word=not form.starts_word)))
            if self.source.spelling.family is TokenizerFamily.WORDPIECE:  # each punctuation mark is a word
                attempts.append(list(self.backend.encode(form.text, add_special_tokens=False).ids))
        without_unknown = ([id for id in ids if id != self._unknown] for ids in attempts)
        return next((ids for ids in without_unknown if self._spells(ids, form)), [])

    def _spells(self, ids: list[int], form: TokenForm) -> bool:
        """Whether pieces spell at least a part of a form; a space alone spells no part of a word."""
        is_visible = (not self.source.forms[id].text.isspace() for id in ids)
        return any(is_visible) or (bool(ids) and form.text.isspace())

    def _split_exactly(self, form: TokenForm) -> list[int]:
        spelling = self.source.spelling
        if form.is_byte and spelling.family is not TokenizerFamily.BYTE_LEVEL:
            names = (f"<0x{byte:02X}>" for byte in form.surface.encode("utf-8", "surrogateescape"))
            return [self.source.ids[name] for name in names if spelling.byte_fallback and name in self.source.ids]
        if self._normalise is not None and not form.is_byte:
            form = form._replace(text=self._normalise(form.text))
        if not form.text:
            return []
        words = [form]
        if spelling.isolates_ideographs and not form.is_byte:
            # The normaliser puts spaces around ideographs, so the text after an ideograph is a separate word too.
            first, *others = form.text.split() or [form.text]
            starts_word = form.starts_word or spelling.isolates(first)
            words = [TokenForm(first, starts_word), *(TokenForm(other, starts_word=True) for other in others)]
        return [token.id for word in words for token in self.backend.model.tokenize(spelling.write(word))]
