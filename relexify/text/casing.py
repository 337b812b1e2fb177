"""Upper and lower case of words, including languages with dotted İ and dotless ı (Turkish, Azerbaijani, Tatar)."""

from __future__ import annotations

from collections.abc import Collection

__all__ = ["capitalised", "has_dotless_i", "spellings"]

_MIN_SHARE = 0.01


def has_dotless_i(words: Collection[str]) -> bool:
    """Whether the language of the words has ı: one word in four in Turkish contains it; elsewhere, a few names do."""
    return sum("ı" in word for word in words) > _MIN_SHARE * len(words)


def capitalised(word: str, *, dotless_i: bool = False) -> str:
    """Return a word with its first letter capitalised.

    Args:
        word: The word.
        dotless_i: Whether its language uses ı, so that the upper case of i is İ.
    """
    if dotless_i and word.startswith("i"):
        return f"İ{word[1:]}"
    # Not `upper`: it would turn ǆ into Ǆ, not ǅ, and capitalise Georgian, which writes no capitals.
    return word[:1].title() + word[1:]


def spellings(word: str, *, dotless_i: bool = False) -> list[str]:
    """Return a word unchanged, in lower case and in title case; some of them may be equal.

    If `str.title` capitalises more than the first letter, the form with a single capital is returned as well: "don't"
    gives "Don'T" and "Don't".

    Args:
        word: The word.
        dotless_i: Whether its language uses ı, so that the lower case of I is ı.
    """
    if dotless_i:
        lower = word.replace("I\u0307", "i").replace("İ", "i").replace("I", "ı").lower()
        return [word, lower, capitalised(lower, dotless_i=True)]
    lower, title = word.lower(), word.title()
    one_capital = capitalised(lower)
    return [word, lower, title] if one_capital == title else [word, lower, title, one_capital]
