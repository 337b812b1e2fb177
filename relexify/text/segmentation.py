"""Word segmentation for languages written without spaces, trained on the text alone.

A string of letters is a candidate word if it is frequent and cohesive: wherever it is split in two, the parts co-occur
more often than by chance. The candidates become a unigram model, whose most probable path segments a run; a few rounds
of segmenting and counting again sharpen it. Every step is deterministic.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice

import numpy as np
from tokenizers.models import Unigram

from relexify.progress import track
from relexify.text.words import WordSplitter, is_unspaced, split_words, unspaced_runs

__all__ = ["Segmenter", "train_segmenter"]

Ids = np.ndarray[tuple[int], np.dtype[np.int64]]
Words = tuple[tuple[str, float], ...]

_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True)
class Segmenter:
    """Splits text into words, and runs of unspaced scripts into the words of its model.

    Attributes:
        words: The words of the model with their natural log probabilities, most probable first.
    """

    words: Words = field(repr=False)

    def __call__(self, text: str) -> list[str]:
        """Return the words, numbers and punctuation marks of a paragraph, in order."""
        items: list[str] = []
        for item in split_words(text):
            if item > "\u0e00" and is_unspaced(item[0]):
                items.extend(token.value for token in self.model.tokenize(item))
            else:
                items.append(item)
        return items

    @cached_property
    def model(self) -> Unigram:
        """The words as a unigram model of `tokenizers`."""
        return _unigram(self.words)


def train_segmenter(lines: Iterable[str], *, vocab_size: int = 50_000, sample_bytes: int = 6_000_000) -> WordSplitter:
    """Train a word splitter for the language of a text.

    Args:
        lines: The text; only its beginning is read.
        vocab_size: Number of words to keep, at most.
        sample_bytes: Bytes of text in unspaced scripts to train on.

    Returns:
        `split_words` if less than a twentieth of the letters of the first lines belong to unspaced scripts, else a
        `Segmenter`.
    """
    stream = iter(lines)
    first = list(islice(stream, _FIRST_LINES))
    if _unspaced_share(first) < _LEAST_SHARE:
        return split_words
    runs = _collect_runs((line for part in (first, stream) for line in part), sample_bytes)
    with track("training the word segmentation", _ROUNDS + 1) as advance:
        counts = _candidates(runs)
        advance(1)
        for _ in range(_ROUNDS):
            counts = _recount(_log_probabilities(counts, vocab_size), runs)
            advance(1)
    words = _log_probabilities(counts, vocab_size)
    _LOGGER.info("found %d words of an unspaced script in %d runs of letters", len(words), len(runs))
    return Segmenter(words)


def _unspaced_share(lines: list[str]) -> float:
    """Return the share of letters that belong to unspaced scripts."""
    letters = Counter(character for line in lines for character in line if character.isalpha())
    unspaced = sum(count for character, count in letters.items() if is_unspaced(character))
    return unspaced / max(1, letters.total())


def _collect_runs(lines: Iterable[str], limit: int) -> list[str]:
    """Return the unspaced runs of the first lines, up to `limit` bytes."""
    runs: list[str] = []
    size = 0
    for line in lines:
        found = unspaced_runs(line)
        runs.extend(found)
        size += sum(len(run) for run in found) * 3  # nearly all letters of such scripts have three bytes
        if size >= limit:
            break
    return runs


def _candidates(runs: list[str]) -> dict[str, int]:
    """Return every letter, and every longer string that may be a word, with its count."""
    text = "\n".join(["", *runs, ""])
    codes = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    letters, ids, counts = np.unique(codes, return_inverse=True, return_counts=True)
    ids = np.where(codes == ord("\n"), -1, ids)
    alphabet = _is_alphabet(counts[letters != ord("\n")])
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


def _is_alphabet(counts: Ids) -> bool:
    """Whether few letters make up nearly all of the text (Thai, Khmer), rather than thousands (Chinese)."""
    covered = np.cumsum(np.sort(counts)[::-1]) / counts.sum()
    return int(np.searchsorted(covered, 0.95)) < _ALPHABET


def _log_probabilities(counts: Mapping[str, int], vocab_size: int) -> Words:
    """Return all single letters and the words that cover most of the text, most probable first."""
    ranked = sorted(counts.items(), key=lambda item: (-item[1] * len(item[0]), item[0]))
    letters = [item for item in ranked if len(item[0]) == 1]
    longer = [item for item in ranked if len(item[0]) > 1][: max(0, vocab_size - len(letters))]
    kept = sorted(letters + longer, key=lambda item: (-item[1], item[0]))
    total = sum(count for _, count in kept)
    # A letter that occurs only inside words must keep a probability above 0: half a count.
    return tuple((word, math.log(max(count, 0.5) / total)) for word, count in kept)


def _recount(words: Words, runs: list[str]) -> dict[str, int]:
    """Segment the runs and count the words again; rare words are dropped, letters never."""
    model = _unigram(words)
    counts = Counter(token.value for run in runs for token in model.tokenize(run))
    return {word: counts[word] for word, _ in words if len(word) == 1 or counts[word] >= _LEAST_RECOUNT}


def _unigram(words: Words) -> Unigram:
    """Return a unigram model of the words; its first, empty piece is for unknown letters."""
    return Unigram([("", 0.0), *words], unk_id=0)


_FIRST_LINES = 2_000
_LEAST_SHARE = 0.05
_ROUNDS = 3
_LONGEST = 10
_LEAST_COUNT = 5
_LEAST_RECOUNT = 2
_ALPHABET = 150
# By length (2, 3, 4 and more). In an alphabet, cohesion is not informative: there, only counts decide.
_LEAST_COHESION = (2.0, 4.0, 5.0)
