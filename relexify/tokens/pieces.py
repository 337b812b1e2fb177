"""How the old tokenizer would have written a new token."""

from __future__ import annotations

from typing import Any

from relexify.tokens.forms import Family, TokenForm
from relexify.tokens.vocabulary import Vocabulary, backend_of, vocabulary_of

__all__ = ["encode_words", "old_pieces"]


def old_pieces(source_tokenizer: Any, target: Vocabulary) -> list[list[int]]:
    """Cut every target token into source tokens.

    The source tokenizer's model is asked directly, in its own alphabet, so that a token inside a word stays inside a
    word and half a character falls into bytes. A token that both vocabularies have is its own single piece; special
    tokens and what the source cannot write have no pieces.

    Returns:
        Source ids for each target id.
    """
    backend, source = backend_of(source_tokenizer), vocabulary_of(source_tokenizer)
    unknown = source.special.get("unk", -1)
    pieces: list[list[int]] = []
    for id, form in enumerate(target.forms):
        if form.is_special or not form.text:
            pieces.append([])
        elif (same := source.same(target, id)) is not None:
            pieces.append([same])
        else:
            pieces.append([id for id in _cut(backend, source, form) if id != unknown])
    return pieces


def encode_words(tokenizer: Any, words: list[str]) -> list[list[int]]:
    """Encode words as running text would be, without special tokens."""
    backend = backend_of(tokenizer)
    return [encoding.ids for encoding in backend.encode_batch_fast(words, add_special_tokens=False)]


def _cut(backend: Any, source: Vocabulary, form: TokenForm) -> list[int]:
    if form.is_byte:
        return _cut_bytes(backend, source, form)
    form = form._replace(text=_normalised(backend, source, form.text))
    return [token.id for token in backend.model.tokenize(source.spelling.write(form))] if form.text else []


def _cut_bytes(backend: Any, source: Vocabulary, form: TokenForm) -> list[int]:
    if source.spelling.family is Family.BYTE_LEVEL:
        return [token.id for token in backend.model.tokenize(source.spelling.write(form))]
    if source.spelling.byte_fallback:
        names = (f"<0x{byte:02X}>" for byte in form.surface.encode("utf-8", "surrogateescape"))
        return [source.ids[name] for name in names if name in source.ids]
    return []


def _normalised(backend: Any, source: Vocabulary, text: str) -> str:
    """The text as the source tokenizer would see it (lower case, NFKC, …), without the space it may put before."""
    if backend.normalizer is None or source.spelling.family is Family.BYTE_LEVEL:
        return text
    seen: str = backend.normalizer.normalize_str(text)
    if source.spelling.family is Family.METASPACE:
        seen = seen.replace("▁", " ")
    return seen if text[:1].isspace() else seen.lstrip(" ")
