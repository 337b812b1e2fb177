"""The bilingual dictionary: pairs of a word and its translation."""

from __future__ import annotations

import re
import sys
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Literal

from relexify.errors import InputError
from relexify.evidence.lexicon.reading import read_pairs
from relexify.progress import count_of
from relexify.storage.fingerprint import NO_EFFECT

__all__ = ["IDENTICAL_WORDS", "BilingualLexicon"]

Pair = tuple[str, str]

IDENTICAL_WORDS = "identical words"
"""Name of the dictionary of words that both languages write alike; it is used if no dictionary is given."""

MOST_CLASSES, ENTRIES_PER_CLASS = 20, 100
"""A column with at most 20 different words, and at least 100 entries per word, contains word classes, not words."""

_INNER_APOSTROPHE = re.compile(r"(\w)(['’‘ʼʻ`´＇])(?=\w)")
_APOSTROPHE = re.compile(r"(\w?)(['’‘ʼʻ`´＇])")


@dataclass(frozen=True)
class BilingualLexicon:
    """A bilingual dictionary.

    Attributes:
        pairs: (source word, target word) in file order; exact duplicates are dropped. Sides may contain spaces.
        name: Name of the file, for reports.
    """

    pairs: tuple[Pair, ...]
    name: str = field(default="", metadata=NO_EFFECT)

    def __post_init__(self) -> None:
        object.__setattr__(self, "pairs", tuple(dict.fromkeys(self.pairs)))

    def __len__(self) -> int:
        return len(self.pairs)

    def __repr__(self) -> str:
        return f"BilingualLexicon({self.name or 'unnamed'}, {len(self):,} pairs)"

    @property
    def source_words(self) -> tuple[str, ...]:
        """The distinct source words, in the order of the pairs."""
        return tuple(dict.fromkeys(source for source, _ in self.pairs))

    @property
    def target_words(self) -> tuple[str, ...]:
        """The distinct target words, in the order of the pairs."""
        return tuple(dict.fromkeys(target for _, target in self.pairs))

    @classmethod
    def load(cls, path: str | Path, *, swapped: bool = False) -> BilingualLexicon:
        """Read a dictionary of any supported format.

        Formats: two columns separated by a tab (Wiktionary lists, whose sides may contain spaces) or by white space
        (MUSE); FreeDict's TEI files; FreeDict's `.index` with `.dict` or `.dict.dz` (give either file, or their
        folder). Text and TEI may be compressed. Both sides are normalised to NFC.

        Args:
            path: The file or folder.
            swapped: Whether the file has the target language first.

        Raises:
            InputError: The file is missing, damaged or not UTF-8, contains no pairs, or a column contains no words.
        """
        path = Path(path)
        lexicon = cls(tuple(dict.fromkeys(read_pairs(path))), name=path.name)  # repeated pairs never take memory
        if not lexicon.pairs:
            raise InputError(
                f"{path} holds no pairs of words: give a dictionary with a word and its translation per line"
            )
        _check_columns(lexicon)
        return lexicon.swapped() if swapped else lexicon

    @classmethod
    def identical(
        cls, source_words: Iterable[str], target_words: Iterable[str], *, shortest: int = 4
    ) -> BilingualLexicon:
        """Return the words that two vocabularies share, each as its own translation, in source order.

        Words of fewer than `shortest` letters, and words with neither letters nor digits, are left out: shared long
        words are mostly names and loanwords, and shared numerals mean the same, but short words are often false friends
        ("die", "in"), and punctuation has no meaning. A letter without case (an ideograph, a syllable, a consonant of
        an abjad) counts as two, because words are shorter in such scripts.
        """
        shared = set(target_words)
        words = (word for word in source_words if word in shared and _is_evidence(word, shortest))
        return cls(tuple((word, word) for word in words), name=IDENTICAL_WORDS)

    def swapped(self) -> BilingualLexicon:
        """Return the dictionary from the target language to the source language."""
        return BilingualLexicon(tuple((target, source) for source, target in self.pairs), name=self.name)

    def spelled_like(self, text: str) -> BilingualLexicon:
        """Return the dictionary with its target words in the Unicode forms that prevail in a text.

        Not every text is in NFC. Some texts have most marks as separate characters (NFD); Vietnamese texts often only
        the tones. Many texts in Hindi or Bengali have letters with a dot as one character (U+095C), which NFC splits.
        The apostrophe inside words of Uzbek, Ukrainian or Swahili also has several forms; the prevailing form may
        depend on the letter before it.
        """
        pattern = _letters_with_marks()
        # Sorted by frequency, so that `setdefault` keeps the most frequent form of each letter; ties in text order.
        counts = Counter(pattern.findall(text)).most_common()
        forms: dict[str, str] = {}
        joined = apart = 0
        for letter, count in counts:
            composed, decomposed = (unicodedata.normalize(form, letter) for form in ("NFC", "NFD"))
            forms.setdefault(composed, letter)
            if len(composed) < len(decomposed):  # only then does the letter show which form the text prefers
                joined, apart = joined + count * (letter == composed), apart + count * (letter == decomposed)
        form: Literal["NFC", "NFD"] = "NFD" if apart > joined else "NFC"  # for letters that the text does not contain

        apostrophes: dict[str, str] = {}
        for (before, mark), _ in Counter(_INNER_APOSTROPHE.findall(text)).most_common():
            apostrophes.setdefault(before.lower(), mark)
            apostrophes.setdefault("", mark)  # for letters without an apostrophe after them in the text

        def spelled(word: str) -> str:
            letters = pattern.findall(unicodedata.normalize("NFC", word))
            word = "".join(forms.get(letter, unicodedata.normalize(form, letter)) for letter in letters)
            if not apostrophes or _APOSTROPHE.search(word) is None:
                return word
            return _APOSTROPHE.sub(lambda found: found[1] + apostrophes.get(found[1].lower(), apostrophes[""]), word)

        return replace(self, pairs=tuple((source, spelled(target)) for source, target in self.pairs))

    def merged(self, other: BilingualLexicon) -> BilingualLexicon:
        """Return the pairs of both dictionaries, those of `self` first."""
        name = " + ".join(filter(None, (self.name, other.name)))
        return BilingualLexicon(self.pairs + other.pairs, name=name)

    def through(self, other: BilingualLexicon, *, limit: int = 3, ambiguity: int = 20) -> BilingualLexicon:
        """Chain two dictionaries over the language they share: A–pivot and pivot–B give A–B.

        The score of a pair is Σ 1 / (a·b) over the pivot words that connect it, where a and b count the pivot word's
        translations into A and B. An ambiguous pivot word ("set") adds little; several pivot words that agree add up.
        Each A word keeps its `limit` best B words. The case of pivot words is ignored.

        Args:
            other: The second dictionary; its source language is the target language of the first.
            limit: Maximum number of translations of a word.
            ambiguity: Pivot words with more translations than this into either language are ignored.
        """
        before, after = _by_pivot(self.swapped()), _by_pivot(other)
        scores: dict[str, dict[str, float]] = {source: {} for source in self.source_words}
        for pivot, sources in before.items():
            targets = after.get(pivot, [])
            if not targets or max(len(sources), len(targets)) > ambiguity:
                continue
            share = 1.0 / (len(sources) * len(targets))
            for source in sources:
                found = scores[source]
                for target in targets:
                    found[target] = found.get(target, 0.0) + share
        # A stable sort keeps ties in file order.
        best = ((source, sorted(found, key=lambda target: -found[target])[:limit]) for source, found in scores.items())
        pairs = tuple((source, target) for source, targets in best for target in targets)
        return BilingualLexicon(pairs, name=" through ".join(filter(None, (self.name, other.name))))


@cache
def _letters_with_marks() -> re.Pattern[str]:
    """Return a pattern that matches a character and the following ones that Unicode normalisation may join to it.

    These are the combining marks, and the second parts of other composed characters, whose combining class is 0: the
    vowels and finals of Hangul, and the second half of a vowel sign in Tamil or Bengali.
    """
    characters = [chr(code) for code in range(sys.maxunicode + 1)]
    marks = {character for character in characters if unicodedata.combining(character)}
    marks.update(chr(code) for code in (*range(0x1161, 0x1176), *range(0x11A8, 0x11C3)))  # Hangul has no table
    for character in filter(unicodedata.decomposition, characters):
        marks.update(unicodedata.normalize("NFD", character)[1:])
    return re.compile(f".[{''.join(sorted(marks))}]*", re.DOTALL)


def _by_pivot(lexicon: BilingualLexicon) -> dict[str, list[str]]:
    """Return the distinct target words of each source word, ignoring the case of the source word."""
    found: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for source, target in lexicon.pairs:
        found[source.casefold()][target] = None
    return {source: list(targets) for source, targets in found.items()}


def _check_columns(lexicon: BilingualLexicon) -> None:
    """Reject a column of numbers, and a column of word classes, which repeats a few values in all entries."""
    for position, words in (("first", lexicon.source_words), ("second", lexicon.target_words)):
        found = ""
        if all(unicodedata.category(letter)[0] in "NPZ" for word in words for letter in word):
            found = "no words"
        elif len(words) <= min(MOST_CLASSES, len(lexicon) / ENTRIES_PER_CLASS):
            found = f"{count_of(len(lexicon), 'entry', 'entries')}, but only {count_of(len(words), 'different word')}"
        if found:
            raise InputError(
                f"the {position} column of {lexicon.name} has {found} (such as {words[0][:40]!r}): give lines with a "
                "word, a tab, and its translation"
            )


def _is_evidence(word: str, shortest: int) -> bool:
    categories = [unicodedata.category(letter) for letter in word]
    letters = sum(2 if category == "Lo" else 1 for category in categories if category.startswith("L"))
    if letters:
        return letters >= shortest
    return any(category.startswith("N") for category in categories)
