"""How the old tokenizer would have written a new token."""

from __future__ import annotations

from typing import Any

from relexify.tokens.forms import METASPACE, TokenForm, TokenizerFamily
from relexify.tokens.vocabulary import Vocabulary, backend_of, vocabulary_of

__all__ = ["encode_words", "source_pieces"]

BYTE_LEVEL_SPACE = "Ġ"


def source_pieces(source_tokenizer: Any, target: Vocabulary) -> list[list[int]]:
    """Cut every target token into source tokens.

    The source tokenizer's model is asked directly, in its own alphabet, so that a token inside a word stays inside a
    word and half a character falls into bytes. A token that both vocabularies have is its own single piece; special
    tokens and what the source cannot write have no pieces.

    Returns:
        Source ids for each target id.
    """
    scissors = _Scissors(backend_of(source_tokenizer), vocabulary_of(source_tokenizer))
    pieces: list[list[int]] = []
    for id, form in enumerate(target.forms):
        if form.is_special or not form.text:
            pieces.append([])
        elif (same := scissors.source.same(target, id)) is not None:
            pieces.append([same])
        else:
            pieces.append(scissors.cut(form))
    return pieces


def encode_words(tokenizer: Any, words: list[str], *, after_space: bool = False) -> list[list[int]]:
    """Encode words as running text would be, without special tokens.

    Args:
        tokenizer: A transformers tokenizer or a `tokenizers.Tokenizer`.
        words: Each alone; a space before a word says that it stands after one.
        after_space: Whether all of them stand after a space.
    """
    backend = backend_of(tokenizer)
    if _prepends_space(backend):
        words = [word.removeprefix(" ") for word in words]
    elif after_space:
        words = [f" {word.removeprefix(' ')}" for word in words]
    return [encoding.ids for encoding in backend.encode_batch_fast(words, add_special_tokens=False)]


def _prepends_space(backend: Any) -> bool:
    """Whether the tokenizer itself puts a space before a text."""
    text = _normalise(backend, "a")
    if backend.pre_tokenizer is not None:
        text = "".join(part for part, _ in backend.pre_tokenizer.pre_tokenize_str(text))
    return text.startswith((" ", METASPACE, BYTE_LEVEL_SPACE))


def _normalise(backend: Any, text: str) -> str:
    return text if backend.normalizer is None else str(backend.normalizer.normalize_str(text))


class _Scissors:
    """The source tokenizer's model, asked for the pieces of one form after the other."""

    def __init__(self, backend: Any, source: Vocabulary) -> None:
        self.backend, self.source = backend, source
        self._unknown = source.special.get("unk", -1)
        self._normaliser_prepends = _normalise(backend, "a").startswith((" ", METASPACE))

    def cut(self, form: TokenForm) -> list[int]:
        """The known pieces; what has no letters may gain or lose the space before it, which not every family writes."""
        ways = [self._cut_as_is(form)]
        if form.is_neutral and not form.is_byte:
            ways = [*ways, self._cut_as_is(form._replace(starts_word=not form.starts_word)), self._cut_alone(form)]
        known = ([id for id in ids if id != self._unknown] for ids in ways)
        return next((ids for ids in known if ids), [])

    def _cut_as_is(self, form: TokenForm) -> list[int]:
        if form.is_byte:
            return self._cut_bytes(form)
        form = form._replace(text=self._normalised(form.text))
        return self._tokenise(form) if form.text else []

    def _cut_alone(self, form: TokenForm) -> list[int]:
        """As a text of its own, where WordPiece makes a word of every punctuation mark."""
        if self.source.spelling.family is not TokenizerFamily.WORDPIECE:
            return []
        return list(self.backend.encode(form.text, add_special_tokens=False).ids)

    def _cut_bytes(self, form: TokenForm) -> list[int]:
        if self.source.spelling.family is TokenizerFamily.BYTE_LEVEL:
            return self._tokenise(form)
        if self.source.spelling.byte_fallback:
            names = (f"<0x{byte:02X}>" for byte in form.surface.encode("utf-8", "surrogateescape"))
            return [self.source.ids[name] for name in names if name in self.source.ids]
        return []

    def _tokenise(self, form: TokenForm) -> list[int]:
        return [token.id for token in self.backend.model.tokenize(self.source.spelling.write(form))]

    def _normalised(self, text: str) -> str:
        """The text as the source would see it (lower case, NFKC, …), without the one space it may put before."""
        family = self.source.spelling.family
        if self.backend.normalizer is None or family is TokenizerFamily.BYTE_LEVEL:
            return text
        seen = _normalise(self.backend, text)
        if family is not TokenizerFamily.METASPACE:
            return seen.strip(" ")
        seen = seen.replace(METASPACE, " ")
        return seen.removeprefix(" ") if self._normaliser_prepends else seen
