"""Running text into words, for training word vectors.

Words are runs of letters with their marks; numbers and punctuation marks are items of their own. Nothing is lost or
changed: the items joined are the text without its white space. Scripts written without spaces come out as unbroken
runs here; `relexify.text.segmentation` learns to cut those.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from functools import cache

__all__ = ["WordSplitter", "is_unspaced", "split_words"]

WordSplitter = Callable[[str], list[str]]
"""Cuts a paragraph into words, numbers and punctuation marks."""


def split_words(text: str) -> list[str]:
    """Cut text into words, numbers and punctuation marks, in order.

    An apostrophe or a hyphen between two letters belongs to the word (`don't`, `ng’ombe`, `Ruf-Name`), a point or a
    comma between two digits to the number (`1,000.5`).
    """
    return _items().findall(text)


def is_unspaced(character: str) -> bool:
    """Whether the character is a letter or mark of a script that is written without spaces between words."""
    return unspaced_runs().fullmatch(character) is not None


@cache
def unspaced_runs() -> re.Pattern[str]:
    """The pattern of a run of letters of unspaced scripts."""
    return re.compile(_unspaced_run())


@cache
def _items() -> re.Pattern[str]:
    """The pattern whose matches are the items of `split_words`."""
    marks, letter = _marks(), rf"[^\W\d_{_unspaced()}]"
    # Unrolled, because a set of characters cannot hold both "any letter" and the marks, which are no letters to `re`.
    rest = rf"[^\W_{_unspaced()}]*"
    word = rf"{letter}{rest}(?:[{marks}]+{rest})*"
    joined = rf"{word}(?:[{_JOINERS}]{word})*"
    return re.compile(rf"{joined}|{_unspaced_run()}|\d+(?:[.,٫٬]\d+)*|\S[{marks}]*")


def _unspaced_run() -> str:
    """Letters and marks of unspaced scripts, and the dot that stands between Tibetan syllables."""
    return rf"[{_unspaced()}](?:[{_unspaced()}{_marks()}]|[་༌](?=[{_unspaced()}]))*"


@cache
def _unspaced() -> str:
    """The inside of a character set: letters and marks of unspaced scripts."""
    codes = (code for first, last in _UNSPACED_BLOCKS for code in range(first, last + 1))
    # 〇 is a number to Unicode, though it is written as a Han letter.
    return _ranges(code for code in codes if unicodedata.category(chr(code))[0] in "LM" or code == 0x3007)


@cache
def _marks() -> str:
    """The inside of a character set: combining marks, and the invisible joiners of Persian and Indic words."""
    codes = (*range(0x300, 0x20000), *range(0xE0100, 0xE01F0))
    marks = (code for code in codes if unicodedata.category(chr(code))[0] == "M")
    return "\u00ad\u200c\u200d" + _ranges(marks)


def _ranges(codes: Iterable[int]) -> str:
    """Ascending code points as the ranges of a character set."""
    ranges: list[list[int]] = []
    for code in codes:
        if ranges and code == ranges[-1][1] + 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return "".join(f"{re.escape(chr(first))}-{re.escape(chr(last))}" for first, last in ranges)


_JOINERS = "'’‘ʹ＇·׳״\u2010\u2011-"

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
