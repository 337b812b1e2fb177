"""Measure how useful evidence is, without training."""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np

from relexify.errors import EvidenceError
from relexify.evidence.lexicon import BilingualLexicon
from relexify.methods.parts.aligned import aligned_tokens
from relexify.methods.parts.translations import translations
from relexify.neighbours import normalise_rows
from relexify.progress import track
from relexify.systems.transfer.assessment.dictionary import share_closer_than_random
from relexify.systems.transfer.initialisation import initialise
from relexify.tokens import vocabulary_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from relexify.methods.inputs import Inputs
    from relexify.mixture import Mixture

__all__ = [
    "FEWEST_HELD_OUT_WORDS",
    "DictionarySize",
    "EvidenceWorth",
    "held_out_words",
    "measure_evidence",
    "split_dictionary",
]

HELD_OUT_SHARE = 10
"""One target word in this many is held out."""
FEWEST_HELD_OUT_WORDS = 30
"""Held-out words that a ranking needs; with fewer, the share that is found is too noisy."""
RANDOM_COMPARISONS = 50
"""Other words that each held-out word is compared with."""
DICTIONARY_PARTS = (0.25, 0.5, 1.0)
"""Parts of the dictionary that are compared."""
FREQUENT_WORD_COUNTS = (1_000, 5_000, 20_000)
"""Words whose share of the text is counted if there is no dictionary."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class DictionarySize:
    """A part of the dictionary.

    Attributes:
        entries: Number of entries.
        text_share: Share of the held-out text that it translates.
    """

    entries: int
    text_share: float


@dataclass(frozen=True)
class EvidenceWorth:
    """What the evidence says about the text.

    Attributes:
        dictionary: Growing parts of the dictionary, the last one all of it; empty if there is none.
        frequent_words: Share of the held-out text that the most frequent whole words of the vocabulary make up, by
            their number: what a dictionary of that size could translate.
        aligned_share: Share of the held-out text whose tokens are aligned in the parallel text; None if there is none.
    """

    dictionary: tuple[DictionarySize, ...]
    frequent_words: dict[int, float]
    aligned_share: float | None


def measure_evidence(inputs: Inputs, counts: np.ndarray) -> EvidenceWorth:
    """Measure how much of a text the evidence translates, or could translate.

    Args:
        inputs: The two tokenizers and the evidence.
        counts: Number of occurrences of each target token in held-out text [target].
    """
    total, lexicon = max(1, int(counts.sum())), inputs.evidence.lexicon
    pairs = () if lexicon is None else lexicon.pairs
    sizes = []
    for share in DICTIONARY_PARTS if pairs else ():
        # By a hash, because dictionaries may be sorted by letter or by frequency.
        part = BilingualLexicon(tuple(pair for pair in pairs if _hash_word(pair[1]) < share * 2**32))
        known = translations(inputs.source, inputs.target, part).known
        sizes.append(DictionarySize(len(part), float(counts[known].sum() / total)))
    forms = vocabulary_of(inputs.target).forms
    words = np.array([form.is_word for form in forms])
    frequent = np.cumsum(-np.sort(-counts[words]))
    # All words of the vocabulary in place of sizes above their number.
    counted = np.minimum(FREQUENT_WORD_COUNTS, len(frequent)).tolist()
    shares = {size: float(frequent[size - 1] / total) for size in counted if size}
    aligned = None
    if inputs.evidence.bitext is not None:
        options = inputs.evidence.aligning
        try:
            known = aligned_tokens(
                inputs.source, inputs.target, inputs.aligned_token_counts, min_count=options.min_count
            ).known
            aligned = float(counts[known].sum() / total)
        except EvidenceError as error:
            logger.warning("the parallel text aligns no tokens: %s", error)
            aligned = 0.0
    return EvidenceWorth(tuple(sizes), shares, aligned)


def split_dictionary(lexicon: BilingualLexicon) -> tuple[BilingualLexicon, BilingualLexicon]:
    """Return a dictionary without some target words, chosen by their hash, and the entries of those words."""
    held = [_hash_word(target) % HELD_OUT_SHARE == 0 for _, target in lexicon.pairs]
    kept = tuple(pair for pair, out in zip(lexicon.pairs, held, strict=True) if not out)
    others = tuple(pair for pair, out in zip(lexicon.pairs, held, strict=True) if out)
    return replace(lexicon, pairs=kept), replace(lexicon, pairs=others)


def held_out_words(inputs_by_method: Mapping[str, Inputs]) -> dict[str, float]:
    """Measure how well methods place words whose translations they are not given.

    For each method, this is how often the row of a held-out word is closer to the mean row of its own translations than
    to the mean row of another held-out word's translations, by cosine: 0.5 is chance. Rows of words that are spelled
    alike in both languages count too.

    Args:
        inputs_by_method: What each method is built from; they differ in the options of the methods.

    Returns:
        By method; empty if there is no dictionary, or too few of its words are tokens. Methods that cannot be built
        from the rest of the dictionary are left out.
    """
    inputs = next(iter(inputs_by_method.values()), None)
    if inputs is None or inputs.evidence.lexicon is None:
        return {}
    kept, held = split_dictionary(inputs.evidence.lexicon)
    meanings = translations(inputs.source, inputs.target, held)
    words = np.flatnonzero(meanings.known & ~translations(inputs.source, inputs.target, kept).known)
    if len(words) < FEWEST_HELD_OUT_WORDS:
        return {}
    embedding = inputs.embedding[: len(vocabulary_of(inputs.source))]
    mean = embedding.mean(axis=0)
    expected = normalise_rows(_centre_rows(meanings, words, embedding, mean))
    reduced = replace(inputs.evidence, lexicon=kept)
    found = {}
    logger.info(
        "building every method again without %s entries of the dictionary, which are held out", f"{len(held):,}"
    )
    with track("placing held-out words", len(inputs_by_method)) as advance:
        for method, own_inputs in inputs_by_method.items():
            advance(0, method)
            with suppress(EvidenceError):
                built = initialise(method, replace(own_inputs, evidence=reduced))
                rows = _centre_rows(built.mixture, words, embedding, mean)
                if built.precomputed is not None:
                    _, of_words, of_ids = np.intersect1d(words, built.precomputed.ids, return_indices=True)
                    rows[of_words] = built.precomputed.vectors[of_ids] - mean
                found[method] = share_closer_than_random(
                    normalise_rows(rows), expected, expected, comparisons=RANDOM_COMPARISONS, seed=inputs.seed
                )
            advance(1)
    return found


def _centre_rows(mixture: Mixture, tokens: np.ndarray, embedding: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Return the mixed rows of some tokens [n × d], of source rows from which the mean [d] is subtracted.

    A copy of the embedding [source × d] with centred rows is not needed for it: Σ w (e − m) = Σ w e − m Σ w.
    """
    weights = mixture.weights[tokens]
    totals = np.asarray(weights.sum(axis=1)).reshape(-1, 1)
    rows: np.ndarray = weights @ embedding - totals * mean
    return rows.astype(np.float32)


def _hash_word(word: str) -> int:
    """Return a number from 0 to 2^32 - 1 that depends on the word alone."""
    return crc32(word.encode("utf-8", "surrogatepass"))
