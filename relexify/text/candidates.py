"""Candidate words of a language written without spaces: strings that are frequent and cohesive.

A string of letters is cohesive if, wherever it is split in two, the parts co-occur more often than by chance.
"""

from __future__ import annotations

import math

import numpy as np

__all__ = ["candidate_words"]

Ids = np.ndarray[tuple[int], np.dtype[np.int64]]

_LONGEST = 10
_LEAST_COUNT = 5
_ALPHABET = 150
# By length (2, 3, 4 and more). In an alphabet, cohesion is not informative: there, only counts decide.
_LEAST_COHESION = (2.0, 4.0, 5.0)


def candidate_words(runs: list[str]) -> dict[str, int]:
    """Return every letter, and every longer string that may be a word, with its count."""
    text = "\n".join(["", *runs, ""])
    codes = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    letters, ids, counts = np.unique(codes, return_inverse=True, return_counts=True)
    ids = np.where(codes == ord("\n"), -1, ids)
    by_count = np.sort(counts[letters != ord("\n")])[::-1]
    # Whether few letters make up nearly all of the text (Thai, Khmer), rather than thousands (Chinese).
    alphabet = int(np.searchsorted(np.cumsum(by_count) / by_count.sum(), 0.95)) < _ALPHABET
    found = {chr(letter): int(count) for letter, count in zip(letters, counts, strict=True) if letter != ord("\n")}
    # For each length: the id of the string that starts at each position (-1 if it is rare or leaves the run), and the
    # log count of each id.
    strings_at, logs = [ids], [np.log(counts)]
    for length in range(2, _LONGEST + 1):
        string_at, starts, counts = _grow(strings_at[-1], ids, length)
        strings_at.append(string_at)
        logs.append(np.log(counts))
        least = -math.inf if alphabet else _LEAST_COHESION[min(length - 2, len(_LEAST_COHESION) - 1)]
        cohesive = _cohesion(strings_at, logs, starts) >= least
        for start, count in zip(starts[cohesive].tolist(), counts[cohesive].tolist(), strict=True):
            found[text[start : start + length]] = count
    return found


def _grow(shorter: Ids, letters: Ids, length: int) -> tuple[Ids, Ids, Ids]:
    """Number the strings of a length, given those one letter shorter.

    A string is frequent only if both of its parts without the last or the first letter are, so only those are extended.

    Returns:
        The id of the string at each position, and the first position and the count of each id.
    """
    last = np.roll(letters, 1 - length)
    grown = np.flatnonzero((shorter >= 0) & (np.roll(shorter, -1) >= 0) & (last >= 0))
    keys = shorter[grown] * (letters.max() + 1) + last[grown]
    _, first, inverse, counts = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
    frequent = counts >= _LEAST_COUNT
    numbers = np.where(frequent, np.cumsum(frequent) - 1, -1)
    string_at = np.full_like(letters, -1)
    string_at[grown] = numbers[inverse]
    return string_at, grown[first[frequent]], counts[frequent]


def _cohesion(strings_at: list[Ids], logs: list[np.ndarray], starts: Ids) -> np.ndarray:
    """Return the pointwise mutual information of each string's two parts, minimised over all splits."""
    length, total = len(strings_at), np.log((strings_at[0] >= 0).sum())
    parts = [
        logs[cut - 1][strings_at[cut - 1][starts]] + logs[length - cut - 1][strings_at[length - cut - 1][starts + cut]]
        for cut in range(1, length)
    ]
    cohesion: np.ndarray = logs[-1][strings_at[-1][starts]] + total - np.max(parts, axis=0)
    return cohesion
