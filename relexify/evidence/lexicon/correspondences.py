"""Which words of two vocabularies a dictionary connects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from relexify.evidence.lexicon.lexicon import BilingualLexicon

__all__ = ["Correspondences", "choose_held_out", "find_correspondences", "questions"]


@dataclass(frozen=True, eq=False)
class Correspondences:
    """The pairs of vocabulary rows that a dictionary vouches for.

    Attributes:
        source: Row in the source vocabulary, int64 [n].
        target: Row in the target vocabulary, int64 [n].
        entry: The dictionary entry it comes from, int64 [n].
        word: The source word of that entry, counted without regard to case, int64 [n].
        entries: How many entries the dictionary has.
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
        """How many dictionary entries have both sides in the vocabularies."""
        return len(np.unique(self.entry))

    @property
    def coverage(self) -> float:
        """The share of dictionary entries with both sides in the vocabularies."""
        return self.entries_used / self.entries if self.entries else 0.0

    def meetings(self, mask: np.ndarray | None = None) -> csr_array:
        """How often each two words meet, csr [distinct source rows × distinct target rows], rows rising.

        Args:
            mask: Count only these, bool [n]; the shape stays.
        """
        source_rows, source_places = np.unique(self.source, return_inverse=True)
        target_rows, target_places = np.unique(self.target, return_inverse=True)
        weights = np.ones(len(self)) if mask is None else mask.astype(np.float64)
        return csr_array((weights, (source_places, target_places)), shape=(len(source_rows), len(target_rows)))


def find_correspondences(
    lexicon: BilingualLexicon, source_index: Mapping[str, int], target_index: Mapping[str, int]
) -> Correspondences:
    """Find each dictionary entry in two vocabularies, in three spellings a side.

    A word is tried as it stands, in lower case and in title case, and every combination found on both sides counts,
    so a lower-case pair counts four times: the entry as it stands twice over on either side. WECHSEL weighs its
    dictionary this way, and its rotations come out the same only if the repeats are kept.

    Args:
        lexicon: The dictionary.
        source_index: From source word to row.
        target_index: From target word to row.
    """
    words: dict[str, int] = {}
    found = [
        (source_row, target_row, entry, words.setdefault(source.casefold(), len(words)))
        for entry, (source, target) in enumerate(lexicon.pairs)
        if (source_rows := _rows(source, source_index)) and (target_rows := _rows(target, target_index))
        for source_row in source_rows
        for target_row in target_rows
    ]
    table = np.array(found, dtype=np.int64).reshape(-1, 4)
    return Correspondences(table[:, 0], table[:, 1], table[:, 2], table[:, 3], len(lexicon))


def choose_held_out(pairs: Correspondences, share: float, *, most: int, seed: int) -> np.ndarray:
    """Mark all pairs of some source words, bool [n], so that no word is on both sides of the split.

    Args:
        pairs: The pairs to choose from.
        share: The share of source words to mark.
        most: At most so many words.
        seed: Chooses the words.
    """
    words = len(np.unique(pairs.word))
    chosen = np.random.default_rng(seed).permutation(words)[: min(most, int(share * words))]
    return np.isin(pairs.word, chosen)


def questions(pairs: Correspondences, mask: np.ndarray) -> tuple[np.ndarray, list[set[int]]]:
    """The marked source words, and the answers that are right.

    Returns:
        One source row for each word, the first spelling found, int64 [w]; and all target rows listed for it.
    """
    first: dict[int, int] = {}
    answers: dict[int, set[int]] = {}
    for word, source, target in zip(pairs.word[mask], pairs.source[mask], pairs.target[mask], strict=True):
        first.setdefault(int(word), int(source))
        answers.setdefault(int(word), set()).add(int(target))
    return np.array(list(first.values()), dtype=np.int64), list(answers.values())


def _rows(word: str, index: Mapping[str, int]) -> list[int]:
    return [index[variant] for variant in (word, word.lower(), word.title()) if variant in index]
