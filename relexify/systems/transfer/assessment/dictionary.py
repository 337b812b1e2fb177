"""Check a dictionary against what the model and the text of the target language already know."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from relexify.errors import EvidenceError
from relexify.evidence.lexicon import BilingualLexicon
from relexify.methods.parts.translations import translations
from relexify.neighbours import nearest_others, normalise_rows
from relexify.systems.transfer.assessment.dictionary_verdict import FEWEST_TESTED_WORDS
from relexify.systems.transfer.assessment.start import DictionaryCheck
from relexify.text import is_unspaced
from relexify.tokens import AnyTokenizer, TokenForm, encode_words, vocabulary_of

if TYPE_CHECKING:
    from relexify.methods.inputs import Inputs
    from relexify.mixture import Mixture

__all__ = ["assess_dictionary", "example_entries", "related_translations", "share_closer_than_random"]

_LONGEST_EXAMPLE = 40
RANDOM_WORDS = 20
"""Random words that each neighbour is compared with."""


def assess_dictionary(inputs: Inputs, counts: np.ndarray) -> DictionaryCheck | None:
    """Measure how much of a text a dictionary translates, and whether its translations make sense.

    Args:
        inputs: What the method was built from; its evidence has a dictionary.
        counts: Number of occurrences of each target token in held-out text [target].
    """
    lexicon = inputs.evidence.lexicon
    if lexicon is None:
        return None
    translated = translations(inputs.source, inputs.target, lexicon)
    words, related = _measure_related(inputs, translated)
    frequent = _are_tokens(inputs.source, [source for source, _ in lexicon.pairs])
    matching = frequent & _are_tokens(inputs.target, [target for _, target in lexicon.pairs])
    return DictionaryCheck(
        tokens=int(translated.known.sum()),
        text_share=float(counts[translated.known].sum() / max(1, counts.sum())),
        words=words,
        related=related,
        entries=len(lexicon),
        frequent=int(frequent.sum()),
        matches=int(matching.sum()),
        examples=example_entries(lexicon),
    )


def example_entries(lexicon: BilingualLexicon) -> list[str]:
    """Return three entries that are spread over a dictionary, or all if it has fewer: they show how it was read."""
    every = max(1, -(-len(lexicon) // 3))
    return [f"{source[:_LONGEST_EXAMPLE]} → {target[:_LONGEST_EXAMPLE]}" for source, target in lexicon.pairs[::every]]


def related_translations(words: np.ndarray, meanings: np.ndarray, *, seed: int) -> float:
    """Return how often the nearest neighbour of a word has a closer meaning than a random word; 0.5 is chance.

    Neighbours are found among the words, and meanings compared, by cosine. If meanings were assigned to words at
    random, a neighbour would have no advantage over a random word, whatever the two spaces look like.

    Args:
        words: Vectors of words, in a space of their language [n × d].
        meanings: Vectors of their meanings, in another space [n × e].
        seed: Random seed.
    """
    neighbours = nearest_others(words, words, 1, own=np.arange(len(words)))[0][:, 0]
    rows = normalise_rows(meanings)
    return share_closer_than_random(rows, rows[neighbours], rows, comparisons=RANDOM_WORDS, seed=seed)


def share_closer_than_random(
    rows: np.ndarray, expected: np.ndarray, others: np.ndarray, *, comparisons: int, seed: int
) -> float:
    """Return how often a row is closer to its expected row than to a random one, by cosine; 0.5 is chance.

    Equal cosines count as one half.

    Args:
        rows: Unit vectors of words [n × d].
        expected: The unit vector that each should be close to [n × d].
        others: Unit vectors of the same words; each word is compared with random other words [n × d].
        comparisons: Random words that each word is compared with.
        seed: Random seed.
    """
    count = len(rows)
    # An offset of 1 … n - 1, so that no word is compared with itself.
    offsets = np.random.default_rng(seed).integers(1, count, (count, comparisons))
    drawn = others[(np.arange(count)[:, None] + offsets) % count]
    near = (rows * expected).sum(axis=1)[:, None]  # [n × 1]
    far = np.einsum("nd,nkd->nk", rows, drawn)  # [n × comparisons]
    return float(((near > far) + 0.5 * (near == far)).mean())


def _are_tokens(tokenizer: AnyTokenizer, words: list[str]) -> np.ndarray:
    """Return which words are a single token that is not special, bool [words]."""
    vocabulary = vocabulary_of(tokenizer)
    return np.array(
        [
            # Words of a script without spaces are tokens that no space comes before.
            (word and is_unspaced(word[0]) and TokenForm(word) in vocabulary.ids_by_form)
            or (len(ids) == 1 and not vocabulary.forms[ids[0]].is_special)
            for word, ids in zip(words, encode_words(tokenizer, words, after_space=True), strict=True)
        ],
        bool,
    )


def _measure_related(inputs: Inputs, translated: Mixture) -> tuple[int, float | None]:
    """Return the number of translated words with a vector, and `related_translations` of them if there are enough."""
    try:
        vectors = inputs.target_subwords
    except EvidenceError:  # too little text for word vectors
        return 0, None
    # One token of each word: capitals and leading spaces make several tokens with the same translation, which would be
    # neighbours with related translations in any dictionary.
    forms = vectors.vocabulary.forms
    by_word: dict[str, int] = {}
    for id in np.flatnonzero(vectors.covered & translated.known):
        if not forms[id].is_neutral:
            by_word.setdefault(forms[id].text.casefold(), int(id))
    ids = np.array(list(by_word.values()), np.int64)
    if len(ids) < FEWEST_TESTED_WORDS:
        return len(ids), None
    weights = translated.weights[ids]
    sources = np.unique(weights.indices)
    meanings = weights[:, sources] @ inputs.centred_rows(sources)
    return len(ids), related_translations(vectors.matrix[ids], meanings, seed=inputs.seed)
