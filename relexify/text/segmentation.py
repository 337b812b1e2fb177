"""Word segmentation for languages written without spaces, trained on the text alone.

Frequent and cohesive strings of letters (`candidates.py`) are the words of a unigram model. A run of letters is
segmented along the most probable path of this model. A few rounds refine the model: segment the text, count its words.
Every step is deterministic.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, islice

from tokenizers.models import Unigram

from relexify.progress import track
from relexify.text.words import WordSplitter, is_unspaced, split_words, unspaced_runs

__all__ = ["Segmenter", "train_segmenter"]

Words = tuple[tuple[str, float], ...]

_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True)
class Segmenter:
    """Split text into words, and runs of unspaced scripts into the words of a unigram model.

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
        """The words as a unigram model of the package tokenizers."""
        return _unigram(self.words)


def train_segmenter(lines: Iterable[str], *, vocab_size: int = 50_000) -> WordSplitter:
    """Train a word splitter for the language of a text.

    Args:
        lines: The text; only its beginning is read.
        vocab_size: Maximum number of words to keep.

    Returns:
        `split_words` if less than 5 % of the letters in the first lines belong to unspaced scripts, otherwise a
        `Segmenter`.
    """
    stream = iter(lines)
    first = list(islice(stream, _FIRST_LINES))
    letters = Counter(character for line in first for character in line if character.isalpha())
    unspaced = sum(count for character, count in letters.items() if is_unspaced(character))
    if unspaced / max(1, letters.total()) < _MIN_SHARE:
        return split_words
    from relexify.text.candidates import candidate_words  # imports numpy, which parsing options does not need

    runs: list[str] = []
    letters_read = 0
    for line in chain(first, stream):
        in_line = unspaced_runs(line)
        runs.extend(in_line)
        letters_read += sum(map(len, in_line))
        if letters_read >= _LETTERS:
            break
    with track("training the word segmentation", _ROUNDS + 1) as advance:
        counts = candidate_words(runs)
        advance(1)
        for _ in range(_ROUNDS):
            # Segment the runs and count the words again; drop rare words, but keep all single letters.
            words = _log_probabilities(counts, vocab_size)
            model = _unigram(words)
            recounted = Counter(token.value for run in runs for token in model.tokenize(run))
            counts = {word: recounted[word] for word, _ in words if len(word) == 1 or recounted[word] >= _MIN_RECOUNT}
            advance(1)
    words = _log_probabilities(counts, vocab_size)
    _LOGGER.info("found %d words of an unspaced script in %d runs of letters", len(words), len(runs))
    return Segmenter(words)


def _log_probabilities(counts: Mapping[str, int], vocab_size: int) -> Words:
    """Return all single letters and the words that cover most of the text, most probable first."""
    ranked = sorted(counts.items(), key=lambda item: (-item[1] * len(item[0]), item[0]))
    letters = [item for item in ranked if len(item[0]) == 1]
    longer = [item for item in ranked if len(item[0]) > 1][: max(0, vocab_size - len(letters))]
    kept = sorted(letters + longer, key=lambda item: (-item[1], item[0]))
    total = sum(count for _, count in kept)
    # A letter that occurs only inside words gets a count of one half, so that its probability is not 0.
    return tuple((word, math.log(max(count, 0.5) / total)) for word, count in kept)


def _unigram(words: Words) -> Unigram:
    """Return a unigram model of the words; its first piece, the empty string, stands for unknown letters."""
    return Unigram([("", 0.0), *words], unk_id=0)


_FIRST_LINES = 2_000
_LETTERS = 2_000_000  # letters of unspaced scripts to train on: about 6 MB
_MIN_SHARE = 0.05  # of letters in unspaced scripts, to train a segmenter
_ROUNDS = 3
_MIN_RECOUNT = 2  # a longer word that a round segments less often is dropped
