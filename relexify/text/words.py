"""Split running text into words, for training word vectors.

Words are runs of letters with their marks; numbers and punctuation marks are separate items. No text is lost or
changed: joining the items gives the text without its white space. A script written without spaces gives unbroken runs
here, which `relexify.text.segmentation` splits into words.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable
from functools import cache

__all__ = ["INVISIBLE_JOINERS", "WordSplitter", "is_unspaced", "split_words", "unspaced_runs"]

WordSplitter = Callable[[str], list[str]]
"""Splits a paragraph into words, numbers and punctuation marks."""


def split_words(text: str) -> list[str]:
    """Split text into words, numbers and punctuation marks, in order.

    An apostrophe or a hyphen between two letters is part of the word (`don't`, `ng’ombe`, `Ruf-Name`); a point or a
    comma between two digits is part of the number (`1,000.5`).
    """
    return _patterns(_limit(text))[0].findall(text)


def unspaced_runs(text: str) -> list[str]:
    """Return the runs of letters of unspaced scripts, in order: the items of `split_words` that may be many words."""
    return _patterns(_limit(text))[1].findall(text)


def is_unspaced(character: str) -> bool:
    """Whether the character is a letter or mark of a script that is written without spaces between words."""
    code = ord(character)
    block = bisect_right(_UNSPACED_BLOCKS, (code, _LAST_CODE)) - 1
    within = block >= 0 and code <= _UNSPACED_BLOCKS[block][1]
    # Unicode classifies 〇 as a number, although it is used like a Han letter.
    return within and (unicodedata.category(character)[0] in "LM" or character == "〇")


@cache
def _patterns(limit: int) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return the patterns of an item and of an unspaced run, for text whose code points are all below `limit`."""
    unspaced, letters, digits, marks = _character_sets(limit)
    word = f"[{letters}][{letters}{digits}{marks}]*"
    joined = f"{word}(?:[{_JOINERS}]{word})*"
    run = f"[{unspaced}](?:[{unspaced}{marks}]|[{_TIBETAN_DOTS}](?=[{unspaced}]))*"
    return re.compile(rf"{joined}|{run}|\d+(?:[.,٫٬]\d+)*|\S[{marks}]*"), re.compile(run)


def _character_sets(limit: int) -> list[str]:
    """Return unspaced letters, other letters, digits and marks, each as the content of a regex character class.

    They are written as ranges because `\\w` of `re` excludes marks, and because a set of ranges matches fastest.
    """
    ranges: list[list[list[int]]] = [[], [], [], []]
    for code in (*range(min(limit, _LAST_LETTER)), *range(min(limit, _LATE_MARKS), min(limit, _LATE_MARKS + 240))):
        index = _set_index(chr(code))
        if index is None:
            continue
        if ranges[index] and code == ranges[index][-1][1] + 1:
            ranges[index][-1][1] = code
        else:
            ranges[index].append([code, code])
    return ["".join(f"{chr(first)}-{chr(last)}" for first, last in of_set) for of_set in ranges]


def _set_index(character: str) -> int | None:
    """Return 0 for a letter or mark of an unspaced script, 1 for another letter, 2 for a digit, 3 for a mark."""
    if character.isalnum():
        return 2 if character.isdecimal() else int(not is_unspaced(character))
    if unicodedata.category(character)[0] == "M":
        return 0 if is_unspaced(character) else 3
    return 3 if character in INVISIBLE_JOINERS else None


def _limit(text: str) -> int:
    """Return the code point that the text's pattern ends at: supplementary planes are rare, and make it slower."""
    return 0x10000 if _RARE.search(text) is None else _LAST_CODE


_RARE = re.compile("[\U00010000-\U0010ffff]")
_LAST_CODE = 0x10FFFF
_LAST_LETTER = 0x323B0  # all letters of Unicode are below this code point
_LATE_MARKS = 0xE0100  # the first of the 240 variation selectors, which come long after the letters
_JOINERS = "'’‘＇·׳״\u2010\u2011-"
INVISIBLE_JOINERS = "\u00ad\u200c\u200d"  # soft hyphen, zero-width non-joiner and joiner (Persian and Indic words)
_TIBETAN_DOTS = "་༌"  # between syllables, not only between words

_UNSPACED_BLOCKS = (
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x0F00, 0x0FFF),  # Tibetan
    (0x1000, 0x109F),  # Myanmar
    (0x1780, 0x17FF),  # Khmer
    (0x1950, 0x19DF),  # Tai Le, New Tai Lue
    (0x1A20, 0x1AAF),  # Tai Tham
    (0x1B00, 0x1B7F),  # Balinese
    (0x2E80, 0x312F),  # Han radicals, Hiragana, Katakana, Bopomofo
    (0x31A0, 0x31FF),  # Bopomofo, Katakana
    (0x3400, 0x4DBF),  # Han
    (0x4E00, 0xA4CF),  # Han, Yi
    (0xA980, 0xA9FF),  # Javanese, Myanmar
    (0xAA60, 0xAADF),  # Myanmar, Tai Viet
    (0xF900, 0xFAFF),  # Han
    (0xFF66, 0xFF9F),  # narrow Katakana
    (0x1B000, 0x1B16F),  # Kana
    (0x20000, 0x323AF),  # Han
)
