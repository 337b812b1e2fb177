"""Candidate words of a language written without spaces: strings that are frequent and cohesive.

A string of letters is cohesive if, wherever it is split in two, the parts co-occur more often than by chance.
"""

from __future__ import annotations

import math

import numpy as np

__all__ = ["candidate_words"]

Ids = np.ndarray[tuple[int], np.dtype[np.int64]]

_MAX_LENGTH = 10
_MIN_COUNT = 5
# A script counts as an alphabet if fewer characters than this cover 95 % of the text.
_ALPHABET_SIZE = 150
# For strings of 2, 3, and 4 or more letters. In an alphabetic script cohesion is uninformative, so only counts matter.
_MIN_COHESION = (2.0, 4.0, 5.0)


def candidate_words(runs: list[str]) -> dict[str, int]:
    """Return every letter, and every longer string that may be a word, with its count."""
    text = "\n".join(["", *runs, ""])
    codes = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    letters, ids, counts = np.unique(codes, return_inverse=True, return_counts=True)
    ids = np.where(codes == ord("\n"), -1, ids)
    by_count = np.sort(counts[letters != ord("\n")])[::-1]
    # True if few letters make up nearly all of the text (Thai, Khmer); false if thousands do (Chinese).
    is_alphabet = int(np.searchsorted(np.cumsum(by_count) / by_count.sum(), 0.95)) < _ALPHABET_SIZE
    words = {chr(letter): int(count) for letter, count in zip(letters, counts, strict=True) if letter != ord("\n")}
    # For each length: the id of the string that starts at each position (-1 if it is rare or leaves the run), and the
    # log count of each id.
    strings_at, logs = [ids], [np.log(counts)]
    for length in range(2, _MAX_LENGTH + 1):
        string_at, starts, counts = _grow(strings_at[-1], ids, length)
        strings_at.append(string_at)
        logs.append(np.log(counts))
        min_cohesion = -math.inf if is_alphabet else _MIN_COHESION[min(length - 2, len(_MIN_COHESION) - 1)]
        cohesive = _cohesion(strings_at, logs, starts) >= min_cohesion
        for start, count in zip(starts[cohesive].tolist(), counts[cohesive].tolist(), strict=True):
            words[text[start : start + length]] = count
    return words


def _grow(shorter: Ids, letters: Ids, length: int) -> tuple[Ids, Ids, Ids]:
    """Assign ids to the frequent strings of a given length, from those one letter shorter.

    A string can be frequent only if it is frequent both without its last letter and without its first letter, so only
    such strings are extended.

    Returns:
        The id of the string at each position, and the first position and the count of each id.
    """
    last = np.roll(letters, 1 - length)
    grown = np.flatnonzero((shorter >= 0) & (np.roll(shorter, -1) >= 0) & (last >= 0))
    keys = shorter[grown] * (letters.max() + 1) + last[grown]
    _, first, inverse, counts = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
    frequent = counts >= _MIN_COUNT
    numbers = np.where(frequent, np.cumsum(frequent) - 1, -1)
    string_at = np.full_like(letters, -1)
    string_at[grown] = numbers[inverse]
    return string_at, grown[first[frequent]], counts[frequent]


def _cohesion(strings_at: list[Ids], logs: list[np.ndarray], starts: Ids) -> np.ndarray:
    """Return the pointwise mutual information of each string's two parts, minimised over all splits."""
    # log p(xy) / (p(x) p(y)) = log count(xy) + log N - (log count(x) + log count(y)); the minimum over all splits is
    # reached where the last term is largest.
    length, total = len(strings_at), np.log((strings_at[0] >= 0).sum())
    parts = [
        logs[cut - 1][strings_at[cut - 1][starts]] + logs[length - cut - 1][strings_at[length - cut - 1][starts + cut]]
        for cut in range(1, length)
    ]
    cohesion: np.ndarray = logs[-1][strings_at[-1][starts]] + total - np.max(parts, axis=0)
    return cohesion
