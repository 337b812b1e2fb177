"""Find the entries of a dictionary in two vocabularies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np
import scipy

from relexify.evidence.lexicon.lexicon import BilingualLexicon
from relexify.text import has_dotless_i, spellings

__all__ = ["Correspondences", "choose_held_out", "find_correspondences", "questions"]


@dataclass(frozen=True, eq=False)
class Correspondences:
    """The pairs of vocabulary rows that a dictionary connects.

    Attributes:
        source: Row in the source vocabulary, int64 [n].
        target: Row in the target vocabulary, int64 [n].
        entry: Index of the dictionary entry, int64 [n].
        word: Index of the source word of that entry, ignoring case, int64 [n].
        entries: Number of entries of the dictionary.
    """

    source: np.ndarray
    target: np.ndarray
    entry: np.ndarray
    word: np.ndarray
    entries: int

    def __len__(self) -> int:
        return len(self.source)

    @property
    def entries_used(self) -> int:
        """Number of dictionary entries with both sides in the vocabularies."""
        return len(np.unique(self.entry))

    @property
    def coverage(self) -> float:
        """The share of dictionary entries with both sides in the vocabularies."""
        return self.entries_used / self.entries if self.entries else 0.0

    def pair_counts(self, mask: np.ndarray | None = None) -> scipy.sparse.csr_array:
        """Count how often two words form a pair, csr [distinct source rows × distinct target rows], in ascending order.

        Args:
            mask: Count only these pairs, bool [n]; the shape of the result does not change.
        """
        source_rows, rows = np.unique(self.source, return_inverse=True)
        target_rows, columns = np.unique(self.target, return_inverse=True)
        weights = np.ones(len(self)) if mask is None else mask.astype(np.float64)
        return scipy.sparse.csr_array((weights, (rows, columns)), shape=(len(source_rows), len(target_rows)))


def find_correspondences(
    lexicon: BilingualLexicon, source_index: Mapping[str, int], target_index: Mapping[str, int]
) -> Correspondences:
    """Find each dictionary entry in two vocabularies, in three or four spellings per side.

    A word is looked up unchanged, in lower case and in title case ("Don'T" also as "Don't"), and every combination that
    is found on both sides counts. A lower-case pair thus counts four times, because on each side the word itself equals
    its lower case. WECHSEL weights its dictionary in this way, and its rotations can be reproduced only with these
    repetitions. Upper and lower case follow the language: its words in the dictionary show whether it has a dotless ı,
    like Turkish.

    Args:
        lexicon: The dictionary.
        source_index: Row of each source word.
        target_index: Row of each target word.
    """
    words: dict[str, int] = {}
    found = []
    dotless = [has_dotless_i(side) for side in (lexicon.source_words, lexicon.target_words)]
    for entry, (source, target) in enumerate(lexicon.pairs):
        for source_row, target_row in product(
            _rows(source, source_index, dotless[0]), _rows(target, target_index, dotless[1])
        ):
            found.append((source_row, target_row, entry, words.setdefault(source.casefold(), len(words))))
    table = np.array(found, dtype=np.int64).reshape(-1, 4)
    return Correspondences(table[:, 0], table[:, 1], table[:, 2], table[:, 3], len(lexicon))


def choose_held_out(pairs: Correspondences, share: float, *, most: int, seed: int) -> np.ndarray:
    """Choose source words at random, and mark all their pairs, bool [n], so that no source word is in both parts.

    Args:
        pairs: The pairs to choose from.
        share: The share of source words to mark.
        most: Maximum number of words to mark.
        seed: Random seed.
    """
    words = len(np.unique(pairs.word))
    chosen = np.random.default_rng(seed).permutation(words)[: min(most, int(share * words))]
    return np.isin(pairs.word, chosen)


def questions(pairs: Correspondences, mask: np.ndarray) -> tuple[np.ndarray, list[set[int]]]:
    """Return the marked source words and their correct translations.

    Returns:
        For each word, the source row of the first spelling that was found, int64 [w], and the set of its target rows.
    """
    first: dict[int, int] = {}
    answers: dict[int, set[int]] = {}
    for word, source, target in zip(pairs.word[mask], pairs.source[mask], pairs.target[mask], strict=True):
        first.setdefault(int(word), int(source))
        answers.setdefault(int(word), set()).add(int(target))
    return np.array(list(first.values()), dtype=np.int64), list(answers.values())


def _rows(word: str, index: Mapping[str, int], dotless_i: bool) -> list[int]:
    return [index[each] for each in spellings(word, dotless_i=dotless_i) if each in index]
