"""What the words of a mixture were made from: translations, similar words, their own spelling, or a copy.

A mixture records which rows were copied, and the weights of the others, but not which evidence a weight comes from.
The weights show how much of a word comes from parts of its own spelling. In a blend, the share of
all other tokens also distinguishes a known meaning from a guessed one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import numpy as np

from relexify.methods.blend import FOCUS_SHARE, GUESSED_SHARE, KNOWN_SHARE
from relexify.mixture import Mixture, Origin, is_part_of, spelling_shares, words_of

__all__ = ["TRANSLATION", "evidence_kinds", "known_share", "spelled_translations", "words_by_origin"]

TRANSLATION = "translation"
"""How a source token is called that is nothing but a translation."""
ROUNDING = 1e-3
"""Error of a share of weights, which are rounded to float32."""
_MOST_SPLITS = 1_000
"""Beginnings of a word that are tried, to find how it is split into source tokens."""


def words_by_origin(mixture: Mixture) -> dict[str, list[int]]:
    """Return the ids of the words by what they were made from, without empty groups.

    The words of a blend are grouped by whether their meaning was known or guessed, those of other methods by whether
    more than half of their weight is on other tokens.
    """
    words = words_of(mixture)
    others = 1 - spelling_shares(mixture, words)
    limit = known_share(mixture)
    names = ("Translated by the dictionary or parallel text", "Partly guessed from similar words")
    if limit is None:
        names, limit = ("Mostly from other tokens", "Partly from other tokens"), 0.5
    groups: dict[str, list[int]] = {
        name: []
        for name in (*names, "From other tokens alone", "From their own spelling", "Copied", "Without evidence")
    }
    for id, share in zip(words, others, strict=True):
        if mixture.origin[id] == Origin.NONE:
            name = "Without evidence"
        elif mixture.origin[id] == Origin.COPIED:
            name = "Copied"
        elif share <= ROUNDING and spelled_translations(mixture, id, limit):
            name = names[0]
        elif share <= ROUNDING:
            name = "From their own spelling"
        elif share >= 1 - ROUNDING:  # without source pieces, a blend of any meaning has this share
            name = "From other tokens alone"
        else:
            name = names[0] if share > limit + ROUNDING else names[1]
        groups[name].append(id)
    return {name: ids for name, ids in groups.items() if ids}


def evidence_kinds(mixture: Mixture, ids: list[int], sources: int) -> list[list[str]]:
    """Return which kind of evidence each of the heaviest source tokens of some target tokens comes from.

    A translation that is a part of the word counts as its spelling too, if it weighs more than the spelling alone would
    give it; else the two cannot be distinguished, as for a name.

    Args:
        mixture: The mixture.
        ids: The target tokens.
        sources: Number of source tokens of each.
    """
    limit = known_share(mixture)
    kinds = []
    for id, spelling in zip(ids, spelling_shares(mixture, ids), strict=True):
        word = mixture.target_spelling.read(mixture.target_tokens[id])
        other = "other token"
        if limit is not None and 1 - spelling < 1 - ROUNDING:
            other = "translation" if 1 - spelling > limit + ROUNDING else "similar word"
        alone = {Origin.COPIED: "copy", Origin.SPECIAL: "same role"}.get(Origin(int(mixture.origin[id])))
        both = {} if alone else spelled_translations(mixture, id, limit)
        if both:
            other = TRANSLATION
        kinds.append(
            [
                alone
                or both.get(token)
                or ("spelling" if is_part_of(mixture.source_spelling.read(token), word) else other)
                for token, _ in mixture.sources(id, sources)
            ]
        )
    return kinds


def spelled_translations(mixture: Mixture, id: int, limit: float | None) -> dict[str, str]:
    """Return the translations of a word among the source tokens whose letters it has, and how they are called.

    The pieces that a word is split into have equal weights: a quarter of all if a translation is known, three quarters
    if it is guessed. What a token weighs beyond a quarter is its weight as a translation, unless it may be a guess.
    With a single source token, the two cannot be distinguished.

    Args:
        mixture: The mixture.
        id: The target token.
        limit: Its `known_share`.
    """
    guessed = GUESSED_SHARE / (1 + GUESSED_SHARE)
    if limit is None or abs(limit - guessed) > ROUNDING:  # nothing was translated
        return {}
    word = mixture.target_spelling.read(mixture.target_tokens[id])
    weights = dict(mixture.sources(id))
    forms = {token: mixture.source_spelling.read(token) for token in weights}
    spelled = {token: weights[token] for token, form in forms.items() if is_part_of(form, word)}
    parts = {token: forms[token].text.strip() for token in spelled}
    # The word itself may be spelled with a space, but no part after the first one is.
    splits = [Counter(split) for split in _splits(word.text, {token: part for token, part in parts.items() if part})]
    shares = [{token: count / split.total() for token, count in split.items()} for split in splits]

    def beyond(share: Mapping[str, float], of_pieces: float) -> dict[str, float]:
        """Return what the tokens weigh beyond their weight as pieces."""
        return {token: weight - of_pieces * share.get(token, 0.0) for token, weight in spelled.items()}

    if any(min(beyond(share, 1 - guessed).values()) >= -ROUNDING for share in shares):
        return {}  # their spelling explains the weights, with guessed meanings or none
    for share in shares:
        translated = beyond(share, 1 / (1 + KNOWN_SHARE))
        if min(translated.values()) >= -ROUNDING:
            names = {token: "translation and spelling" if token in share else TRANSLATION for token in translated}
            return {token: names[token] for token, weight in translated.items() if weight > ROUNDING}
    return {}


def _splits(text: str, parts: Mapping[str, str]) -> Iterator[list[str]]:
    """Yield ways to write a text with some parts, each with the tokens that it takes; not all of very many."""
    pending: list[tuple[str, list[str]]] = [(text, [])]
    for _ in range(_MOST_SPLITS):
        if not pending:
            return
        rest, taken = pending.pop()
        if not rest:
            yield taken
        pending += [(rest[len(part) :], [*taken, token]) for token, part in parts.items() if rest.startswith(part)]


def known_share(mixture: Mixture) -> float | None:
    """Return the share of other tokens above which a blend knows the meaning of a word; None for other methods.

    A meaning that is guessed weighs less, relative to the source pieces, than one that is known.
    """
    if mixture.method != "blend":
        return None
    others = 1 - spelling_shares(mixture, words_of(mixture))
    # FOCUS is used only if nothing is translated. Then no share is greater than its own.
    focused, guessed = (share / (1 + share) for share in (FOCUS_SHARE, GUESSED_SHARE))
    has_translations = bool(np.any((others > focused + ROUNDING) & (others < 1 - ROUNDING)))
    return guessed if has_translations else focused
