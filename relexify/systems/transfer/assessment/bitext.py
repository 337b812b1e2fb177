"""Measure what parallel text contributes to a transfer."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from relexify.errors import EvidenceError
from relexify.evidence.bitext.aligned_tokens import most_lines
from relexify.methods.parts.aligned import aligned_tokens
from relexify.methods.parts.translations import translations
from relexify.systems.transfer.assessment.start import BitextCheck
from relexify.text.words import split_words, unspaced_runs

if TYPE_CHECKING:
    from relexify.methods.inputs import Inputs

__all__ = ["assess_bitext"]


def assess_bitext(inputs: Inputs, counts: np.ndarray, text: str, *, mixed: np.ndarray) -> BitextCheck | None:
    """Measure how many words of a text occur in the parallel text, and how many tokens are built from it.

    Args:
        inputs: What the method was built from.
        counts: Number of occurrences of each target token in the text [target].
        text: A sample of held-out text, one paragraph per line.
        mixed: The rows that are mixed from evidence; punctuation, for example, may be copied instead, bool [target].

    Returns:
        What was measured; None if there is no parallel text.
    """
    bitext, options = inputs.evidence.bitext, inputs.evidence.aligning
    if bitext is None:
        return None
    try:
        aligned = aligned_tokens(
            inputs.source, inputs.target, inputs.aligned_token_counts, min_count=options.min_count
        ).known
    except EvidenceError:  # no two tokens were aligned often enough
        aligned = np.zeros(len(counts), bool)
    aligned = aligned & mixed
    shared = None
    if inputs.evidence.lexicon is not None:
        translated = translations(inputs.source, inputs.target, inputs.evidence.lexicon).known
        shared = int((aligned & translated).sum())
    left_out = set(inputs.scored_pairs.tolist())  # they are a part of the text itself
    used = (
        target
        for line, (_, target) in enumerate(bitext.sample(most_lines(inputs.evidence.links, options))[1])
        if target and line not in left_out
    )
    pairs, known = 0, set[str]()
    for target in used:
        pairs += 1
        known.update(map(str.lower, split_words(target)))
    return BitextCheck(
        pairs=pairs,
        tokens=int(aligned.sum()),
        text_share=float(counts[aligned].sum() / max(1, counts.sum())),
        overlap=_word_overlap(text, known),
        shared=shared,
    )


def _word_overlap(text: str, known: set[str]) -> float | None:
    """Return the share of the words of a text that are known; None if no spaces separate them."""
    words = Counter(word.lower() for word in split_words(text) if word[0].isalpha())
    if not words or len(unspaced_runs(text)) >= len(words) / 2:
        return None
    return sum(count for word, count in words.items() if word in known) / words.total()
