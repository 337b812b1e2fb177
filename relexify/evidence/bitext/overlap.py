"""Find the pairs of parallel text whose sentences occur in text that a model will be scored on."""

from __future__ import annotations

import logging
import re
import unicodedata
from collections.abc import Iterable
from itertools import chain

import numpy as np

from relexify.errors import EvidenceError
from relexify.text import split_words

__all__ = ["find_overlap", "report_overlap"]

logger = logging.getLogger(__name__)

_SENTENCE_ENDS = re.compile(r"(?<=[.!?…؟۔।॥።፧։]['\"”’»)\s])\s*|(?<=[。！？｡។။])|(?<=[\u0370-\u03ff\u1f00-\u1fff];)\s+")
"""Ends of sentences, also in Arabic script, Devanagari, Ethiopic, Armenian, Khmer, Burmese and Greek (`;`)."""


def find_overlap(
    pairs: Iterable[tuple[str, str]], source_texts: Iterable[str], target_texts: Iterable[str]
) -> np.ndarray:
    """Return the indices of the pairs with a side whose sentences all occur in the text of its language, int64 [n].

    Case, punctuation, white space and Unicode form are ignored: the translation of a test sentence gives it away even
    if the punctuation differs.

    Args:
        pairs: Sentences of the source language and of the target language.
        source_texts: Paragraphs of the source language to score on.
        target_texts: Paragraphs of the target language to score on.
    """
    scored = [set(chain.from_iterable(map(_sentences, texts))) for texts in (source_texts, target_texts)]
    overlap = []
    for index, pair in enumerate(pairs):
        for side, known in zip(pair, scored, strict=True):
            sentences = _sentences(side)
            if sentences and sentences <= known:
                overlap.append(index)
                break
    return np.array(overlap, np.int64)


def report_overlap(left_out: int, pairs: int) -> None:
    """Warn of pairs that are left out because they are also in text to score on.

    Raises:
        EvidenceError: No pairs remain.
    """
    if not left_out:
        return
    logger.warning("%d of %d sentence pairs are in text to score on and are left out", left_out, pairs)
    if left_out == pairs:
        raise EvidenceError("all pairs of parallel text are in text to score on: give other text to one of the two")


def _sentences(text: str) -> set[str]:
    """Return the words of every sentence of a paragraph, without sentences that have no words."""
    sentences = (
        " ".join(word for word in split_words(sentence) if any(map(str.isalnum, word)))
        for sentence in _SENTENCE_ENDS.split(unicodedata.normalize("NFC", text).casefold())
    )
    return {sentence for sentence in sentences if sentence}
