"""What the words of a mixture were made from: translations, similar words, their own spelling, or a copy.

A mixture records which rows were copied, and the weights of the others, but not which evidence a weight comes from.
The weights show how much of a word comes from parts of its own spelling. In a blend, the share of
all other tokens also distinguishes a known meaning from a guessed one.
"""

from __future__ import annotations

import numpy as np

from relexify.methods.blend import FOCUS_SHARE, GUESSED_SHARE
from relexify.mixture import Mixture, Origin, is_part_of, spelling_shares, words_of

__all__ = ["evidence_kinds", "words_by_origin"]

ROUNDING = 1e-3
"""Error of a share of weights, which are rounded to float32."""


def words_by_origin(mixture: Mixture) -> dict[str, list[int]]:
    """Return the ids of the words by what they were made from, without empty groups.

    The words of a blend are grouped by whether their meaning was known or guessed, those of other methods by whether
    more than half of their weight is on other tokens.
    """
    words = words_of(mixture)
    others = 1 - spelling_shares(mixture, words)
    limit = _known_share(mixture)
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

    A translation that is a part of the word, such as that of a name, counts as its spelling.

    Args:
        mixture: The mixture.
        ids: The target tokens.
        sources: Number of source tokens of each.
    """
    limit = _known_share(mixture)
    kinds = []
    for id, spelling in zip(ids, spelling_shares(mixture, ids), strict=True):
        word = mixture.target_spelling.read(mixture.target_tokens[id])
        other = "other token"
        if limit is not None and 1 - spelling < 1 - ROUNDING:
            other = "translation" if 1 - spelling > limit + ROUNDING else "similar word"
        alone = {Origin.COPIED: "copy", Origin.SPECIAL: "same role"}.get(Origin(int(mixture.origin[id])))
        kinds.append(
            [
                alone or ("spelling" if is_part_of(mixture.source_spelling.read(token), word) else other)
                for token, _ in mixture.sources(id, sources)
            ]
        )
    return kinds


def _known_share(mixture: Mixture) -> float | None:
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
