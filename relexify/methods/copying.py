"""Rows that need no translation: special tokens by role, neutral tokens, tokens both vocabularies share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from relexify.errors import VocabularyError
from relexify.mixture import Mixture, Origin, mixture_of_rows
from relexify.tokens import EQUIVALENT_ROLES, Vocabulary, vocabulary_of

__all__ = ["neutral", "shared", "special"]


def special(source: Any, target: Any, *, overrides: Mapping[str, str] | None = None) -> Mixture:
    """Copy special tokens from the old token with the same role, or else the same spelling.

    Args:
        source: The old tokenizer or its vocabulary.
        target: The new one.
        overrides: Source token by target token, both spelled out; any token may be named.

    Raises:
        VocabularyError: An override names a token that does not exist.
    """
    old, new = vocabulary_of(source), vocabulary_of(target)
    rows: list[list[int]] = [[] for _ in range(len(new))]
    roles: dict[int, list[str]] = {}
    for role, id in new.special.items():
        roles.setdefault(id, []).append(role)
    for id, form in enumerate(new.forms):
        if form.is_special and new.tokens[id]:
            match = _counterpart(new.tokens[id], roles.get(id, []), old)
            rows[id] = [] if match is None else [match]
    chosen = {_named(new, ours, "new"): _named(old, theirs, "old") for ours, theirs in (overrides or {}).items()}
    for id, match in chosen.items():
        rows[id] = [match]
    origins = np.where([form.is_special for form in new.forms], Origin.SPECIAL, Origin.COPIED)
    return mixture_of_rows(rows, old, new, method="special", origin=origins)


def neutral(source: Any, target: Any) -> Mixture:
    """Copy what means the same in every language: digits, punctuation, white space, single bytes."""
    return _same_forms(source, target, "neutral", lambda form: form.is_neutral)


def shared(source: Any, target: Any) -> Mixture:
    """Copy every token that both vocabularies have, whatever the family of either."""
    return _same_forms(source, target, "shared", lambda form: True)


def _same_forms(source: Any, target: Any, method: str, wanted: Any) -> Mixture:
    old, new = vocabulary_of(source), vocabulary_of(target)
    rows = []
    for id, form in enumerate(new.forms):
        match = None if form.is_special or not wanted(form) else _same(old, new, id)
        rows.append([] if match is None else [match])
    return mixture_of_rows(rows, old, new, method=method, origin=Origin.COPIED)


def _same(old: Vocabulary, new: Vocabulary, id: int) -> int | None:
    """The old token that says the same; a neutral one may lose the space, which not every family writes."""
    form, match = new.forms[id], old.same(new, id)
    if match is None and form.is_neutral:
        match = old.ids_by_form.get(form._replace(starts_word=not form.starts_word))
    return match


def _counterpart(token: str, roles: list[str], old: Vocabulary) -> int | None:
    for role in roles:
        if role in old.special:
            return old.special[role]
    if token in old.ids:
        return old.ids[token]
    stand_ins = (other for role in roles for other in EQUIVALENT_ROLES.get(role, ()))
    return next((old.special[role] for role in stand_ins if role in old.special), None)


def _named(vocabulary: Vocabulary, token: str, which: str) -> int:
    found = vocabulary.find(token)
    if not found:
        raise VocabularyError(f"the {which} vocabulary has no token {token!r}: check the override TARGET=SOURCE")
    return found[0]
