"""Rows that need no translation: special tokens by role, neutral tokens, tokens that both vocabularies have."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping

import numpy as np

from relexify.errors import VocabularyError
from relexify.mixture import Mixture, Origin, mixture_of_rows
from relexify.tokens import EQUIVALENT_ROLES, AnyVocabulary, TokenForm, Vocabulary, vocabulary_of

__all__ = ["kept", "neutral", "shared", "special"]

_FULL_WIDTH = ord("！") - ord("!")
_PUNCTUATION = {
    each: latin
    for latin, others in {
        ".": "۔।॥。｡።។៕။།༎։᠃꓿",
        ",": "،٬、､፣၊՝߸᠂꓾",
        ";": "؛፤",
        ":": "፥",
        "?": "؟፧՞𞥟",
        "!": "՜߹𞥞",
        "%": "٪",
        '"': "「」『』《》〝〞",
    }.items()
    for each in others
}
"""The corresponding punctuation mark of Latin script for marks of Arabic, Devanagari, Chinese, Ethiopic, Khmer,
Burmese, Tibetan, Armenian, Mongolian, N'Ko, Adlam and Lisu."""


def special(
    source: AnyVocabulary,
    target: AnyVocabulary,
    *,
    overrides: Mapping[str, str] | None = None,
) -> Mixture:
    """Copy special tokens from the source token with the same role, or else the same spelling.

    Args:
        source: The source tokenizer or its vocabulary.
        target: The target tokenizer or its vocabulary.
        overrides: Source token by target token, both by their spelling; any token is allowed.

    Raises:
        VocabularyError: An override names a token that does not exist.
    """
    source, target = vocabulary_of(source), vocabulary_of(target)
    rows: list[list[int]] = [[] for _ in range(len(target))]
    roles: dict[int, list[str]] = {}
    for role, id in target.special.items():
        roles.setdefault(id, []).append(role)
    for id, form in enumerate(target.forms):
        if form.is_special and target.tokens[id]:
            match = _counterpart(target.tokens[id], roles.get(id, []), source)
            rows[id] = [] if match is None else [match]
    for target_token, source_token in (overrides or {}).items():
        rows[_id_of(target_token, target, "target")] = [_id_of(source_token, source, "source")]
    origins = np.where([form.is_special for form in target.forms], Origin.SPECIAL, Origin.COPIED)
    return mixture_of_rows(rows, source, target, method="special", origin=origins)


def kept(source: AnyVocabulary, target: AnyVocabulary) -> Mixture:
    """Copy every source token to the same id of a target vocabulary that extends the source vocabulary.

    Raises:
        VocabularyError: The target vocabulary does not begin with the source vocabulary.
    """
    source, target = vocabulary_of(source), vocabulary_of(target)
    if target.tokens[: len(source)] != source.tokens:
        raise VocabularyError(
            "the target vocabulary does not begin with the source vocabulary: extend the model's own tokenizer"
        )
    rows = [[id] if id < len(source) else [] for id in range(len(target))]
    origins = np.where([form.is_special for form in target.forms], Origin.SPECIAL, Origin.COPIED)
    return mixture_of_rows(rows, source, target, method="kept", origin=origins)


def neutral(source: AnyVocabulary, target: AnyVocabulary) -> Mixture:
    """Copy tokens that mean the same in every language: digits, punctuation, white space, single bytes.

    Digits and punctuation marks of another script that the source vocabulary lacks are copied from their counterparts
    in Latin script: ३ from 3, ؟ from ?, 。 from a full stop.
    """
    return _same_forms(source, target, "neutral", neutral_only=True)


def shared(source: AnyVocabulary, target: AnyVocabulary) -> Mixture:
    """Copy every token that both vocabularies have; the two tokenizers may be of different families."""
    return _same_forms(source, target, "shared", neutral_only=False)


def _same_forms(source: AnyVocabulary, target: AnyVocabulary, method: str, *, neutral_only: bool) -> Mixture:
    source, target = vocabulary_of(source), vocabulary_of(target)
    rows = []
    for id, form in enumerate(target.forms):
        match = None
        if not form.is_special and (not neutral_only or form.is_neutral):
            match = source.same(target, id)
            if match is None and form.is_neutral:  # not every family writes the space before digits and punctuation
                match = source.ids_by_form.get(form._replace(starts_word=not form.starts_word))
            if match is None and neutral_only and (latin := _in_latin_script(form.text)) != form.text:
                forms = (TokenForm(latin, starts_word) for starts_word in (form.starts_word, not form.starts_word))
                match = next((source.ids_by_form[each] for each in forms if each in source.ids_by_form), None)
        rows.append([] if match is None else [match])
    return mixture_of_rows(rows, source, target, method=method, origin=Origin.COPIED)


def _in_latin_script(text: str) -> str:
    """Replace digits and punctuation marks by their counterparts in Latin script; keep other characters."""
    return "".join(
        chr(ord(each) - _FULL_WIDTH)
        if "！" <= each <= "～"
        else str(unicodedata.decimal(each, _PUNCTUATION.get(each, each)))
        for each in text
    )


def _counterpart(token: str, roles: list[str], source: Vocabulary) -> int | None:
    for role in roles:
        if role in source.special:
            return source.special[role]
    if token in source.ids:
        return source.ids[token]
    # Equivalent roles come last, because they fit less well than the same spelling: BERT's [CLS] and GPT's
    # <|endoftext|>, for example.
    equivalents = (other for role in roles for other in EQUIVALENT_ROLES.get(role, ()))
    return next((source.special[role] for role in equivalents if role in source.special), None)


def _id_of(token: str, vocabulary: Vocabulary, side: str) -> int:
    found = vocabulary.find(token)
    if not found:
        raise VocabularyError(f"the {side} vocabulary has no token {token!r}: check the override TARGET=SOURCE")
    return found[0]
