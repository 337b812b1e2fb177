"""An invented language: English grammar, invented words, and an exact dictionary.

It is the ground truth of the demo and the tests. Like a real language, it has its own phonology, short frequent words,
and endings: a plural is its singular plus a fixed ending, so substrings of words carry meaning. No two English words
share an invented word:

- roots consist of syllables without `ë` and `x`;
- an ending is `ë` and one letter, so it is distinct from the root before it;
- a word missing from the dictionary is spelled letter by letter after `xö`.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

__all__ = ["InventedLanguage", "invent"]


@dataclass(frozen=True)
class InventedLanguage:
    """English with every word replaced.

    Attributes:
        dictionary: A one-to-one mapping of English to invented words, in lower case, most frequent words first.
        seed: The random seed that it was invented with.
    """

    dictionary: Mapping[str, str] = field(repr=False)
    seed: int

    def translate(self, text: str) -> str:
        """Replace every word; keep the order, letter case (Title, UPPER, lower), digits, punctuation and spaces."""
        return _WORD.sub(lambda match: self._translate_word(match[0]), text)

    def gloss(self, text: str) -> str:
        """Translate a text in this language to English, word by word and in lower case; unknown words become `?`."""
        return _WORD.sub(lambda match: self._english.get(match[0].lower().replace("’", "'"), "?"), text)

    def pairs(self) -> list[tuple[str, str]]:
        """Return the dictionary as pairs, most frequent words first."""
        return list(self.dictionary.items())

    def _translate_word(self, word: str) -> str:
        key = word.lower().replace("’", "'")
        invented = self.dictionary.get(key) or self._invent_unseen(key)
        if "’" in word:
            invented = invented.replace("'", "’")
        if len(word) > 1 and word.isupper():
            return invented.upper()
        return invented[0].upper() + invented[1:] if word[0].isupper() else invented

    def _invent_unseen(self, word: str) -> str:
        """Translate a word that is not in the dictionary: as a known stem and ending, or else letter by letter."""
        for stem, ending in _exact_stems(word):
            inflected = self.dictionary.get(stem, "") + ending
            if stem in self.dictionary and inflected not in self._invented_words:
                return inflected
        return "xö" + word.translate(self._alphabet)

    @cached_property
    def _invented_words(self) -> frozenset[str]:
        return frozenset(self.dictionary.values())

    @cached_property
    def _english(self) -> dict[str, str]:
        return {invented: english for english, invented in self.dictionary.items()}

    @cached_property
    def _alphabet(self) -> dict[int, str]:
        """A substitute for every letter, vowels for vowels, so that a spelled word is nearly pronounceable."""
        draw = random.Random(self.seed)
        groups = ("aeiou", "bcdfghjklmnpqrstvwxyz")
        return {ord(a): b for group in groups for a, b in zip(group, draw.sample(group, len(group)), strict=True)}


def invent(words: Iterable[str] | Mapping[str, int], seed: int = 0) -> InventedLanguage:
    """Invent a language for the given English words.

    Args:
        words: Words or running text, whose words are counted, or a mapping of words to counts.
        seed: Random seed; each seed gives a different language.
    """
    counts = _count(words)
    ranked = sorted(counts, key=lambda word: (-counts[word], word))
    roots = _roots(random.Random(seed), banned=set(ranked))
    dictionary: dict[str, str] = {}
    taken: set[str] = set()
    # Roots are assigned by rank first, so that frequent words are short. Then the words are handled from short to long:
    # a stem is shorter than the words built on it, so it is in the dictionary when it is needed.
    root_of = {word: next(roots) for word in ranked}
    for word in sorted(ranked, key=lambda word: (len(word), word)):
        inflected = (dictionary[stem] + ending for stem, ending in _stems(word) if stem in dictionary)
        unused = (form for form in inflected if form not in taken and form not in counts)
        dictionary[word] = next(unused, root_of[word])
        taken.add(dictionary[word])
    return InventedLanguage({word: dictionary[word] for word in ranked}, seed)


def _count(words: Iterable[str] | Mapping[str, int]) -> Counter[str]:
    """Count how often each word occurs, in lower case."""
    counts: Counter[str] = Counter()
    items = words.items() if isinstance(words, Mapping) else ((text, 1) for text in words)
    for text, count in items:
        for word in _WORD.findall(text):
            counts[word.lower().replace("’", "'")] += count
    return counts


def _stems(word: str) -> Iterator[tuple[str, str]]:
    """Yield the possible stems of a word, each with the invented ending: exact stems first, then changed spellings."""
    yield from _exact_stems(word)
    for spelling, suffix, stem_end in _RESPELLED:
        if word.endswith(spelling):
            bare = word.removesuffix(spelling)
            yield bare + stem_end, _ENDINGS[suffix]
            if suffix in ("ed", "ing") and bare[-1:] == bare[-2:-1]:
                yield bare[:-1], _ENDINGS[suffix]  # stopped, running


def _exact_stems(word: str) -> Iterator[tuple[str, str]]:
    """Yield each stem that results from removing an English suffix unchanged, with the suffix's invented ending."""
    for suffix, ending in _ENDINGS.items():
        stem = word.removesuffix(suffix)
        if stem != word and len(stem) > 1 and _VOWEL.search(stem):  # string is not a form of str
            yield stem, ending


def _roots(draw: random.Random, banned: set[str]) -> Iterator[str]:
    """Yield distinct roots of increasing length, none of them a banned word."""
    seen = set(banned)
    syllables = [onset + vowel + coda for onset in _ONSETS for vowel in _VOWELS for coda in _CODAS]
    for length, amount in _ROOTS_OF_SYLLABLES:
        yielded = 0
        while yielded < amount:
            root = "".join(draw.choices(syllables, k=length))
            if root not in seen:
                seen.add(root)
                yielded += 1
                yield root


_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_VOWEL = re.compile("[aeiouy]")

_ONSETS = ("b", "d", "g", "k", "l", "m", "n", "p", "r", "t", "v", "z", "š", "ts", "kv", "dr", "žl", "mn")
_VOWELS = ("a", "e", "i", "o", "u", "ö", "ai")
_CODAS = ("", "", "", "k", "l", "m", "n", "š", "rt")
_ROOTS_OF_SYLLABLES = ((1, 100), (2, 5_000), (3, 200_000), (5, 1 << 62))  # (syllables, number of roots)

# The invented ending of each English suffix. Every ending contains ë, which no root has, and all endings differ, so a
# form is unambiguous.
_ENDINGS = {
    "s": "ëk", "ed": "ën", "ing": "ëm", "ly": "ëš", "'s": "'ël", "n't": "'ët",
    "'re": "'ëz", "'ll": "'ëd", "'ve": "'ëv", "'d": "'ëg", "'m": "'ëb",
}  # fmt: skip
# (how a suffix is spelled after some stems, the suffix, the end of the stem that this spelling replaced)
_RESPELLED = (
    ("ies", "s", "y"), ("es", "s", ""), ("ied", "ed", "y"), ("ed", "ed", "e"), ("ing", "ing", "e"),
    ("ily", "ly", "y"), ("ly", "ly", "le"),
)  # fmt: skip
