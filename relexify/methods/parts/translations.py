"""Evidence straight from a dictionary: a target token is the mean of the source pieces of its translations.

With a complete dictionary (as there is for an invented language) this is the mixture to measure others by; an ordinary
dictionary covers only the tokens that are whole words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import chain

import numpy as np
import scipy

from relexify.errors import InputError
from relexify.evidence.lexicon import BilingualLexicon
from relexify.evidence.lexicon.correspondences import find_correspondences
from relexify.mixture import Mixture, Origin, mixture_of_weights
from relexify.text import capitalised, has_dotless_i, is_unspaced
from relexify.tokens import AnyTokenizer, TokenForm, Vocabulary, encode_words, vocabulary_of

__all__ = ["IF_SWAPPED", "check_columns", "translations", "whole_words"]

IF_SWAPPED = "add `dictionary_swapped=true`, or leave it out if it is given"
"""What to do about a dictionary whose columns look swapped."""
SWAPPED = 0.01
"""Share of the entries that must fit the other way round if a dictionary is rejected for it; some words fit any."""


def translations(
    source_tokenizer: AnyTokenizer,
    target_tokenizer: AnyTokenizer,
    lexicon: BilingualLexicon,
    *,
    frequencies: Mapping[str, float] | None = None,
    whole_words: bool = True,
) -> Mixture:
    """Mix the tokens of dictionary words from the pieces of their translations.

    Args:
        source_tokenizer: The model's tokenizer.
        target_tokenizer: The target language's tokenizer.
        lexicon: Source word and target word; all translations of a word have the same weight.
        frequencies: Frequencies of target words, which weight the words that share a token; equal if None.
        whole_words: Use only words that are a single token; otherwise a token is mixed from every word it occurs in,
            weighted by its share of the word.
    """
    source, target = vocabulary_of(source_tokenizer), vocabulary_of(target_tokenizer)
    dotless = [has_dotless_i(side) for side in (lexicon.source_words, lexicon.target_words)]
    capitals = (
        (capitalised(one, dotless_i=dotless[0]), capitalised(other, dotless_i=dotless[1]))
        for one, other in lexicon.pairs
    )
    pairs = list(dict.fromkeys(chain.from_iterable(zip(lexicon.pairs, capitals, strict=True))))
    sources = _without_special(encode_words(source_tokenizer, [f" {word}" for word, _ in pairs]), source)
    # The frequency of each target word, divided by the number of its translations
    words = [word for _, word in pairs]
    counts, known = Counter(words), frequencies or {}
    weights = np.array([max(known.get(word, 1.0), 1e-9) / counts[word] for word in words], dtype=np.float64)
    meaning = _averages(sources, np.ones(len(pairs)), len(source))  # [pairs × source]
    # A word has other tokens after a space than at the start of a text or, without spaces, inside it.
    after_space = encode_words(target_tokenizer, words, after_space=True)
    alone = [
        [target.ids_by_form[TokenForm(word)]] if _is_token(word, target) else ids
        for ids, word in zip(encode_words(target_tokenizer, words), words, strict=True)
    ]
    tokens = scipy.sparse.csr_array((len(target), len(pairs)))
    for rows in (after_space, alone):
        used = [ids if len(ids) == 1 or not whole_words else [] for ids in rows]
        tokens = tokens + _averages(_without_special(used, target), weights, len(target)).T
    mixed = scipy.sparse.csr_array(tokens) @ meaning  # [target × source]
    totals = np.asarray(mixed.sum(axis=1)).ravel()
    scale = np.divide(1.0, totals, out=np.zeros_like(totals), where=totals > 0)
    return mixture_of_weights(
        scipy.sparse.csr_array(scipy.sparse.diags_array(scale) @ mixed),
        source,
        target,
        method="translations",
        origin=Origin.MIXED,
    )


def whole_words(tokenizer: AnyTokenizer) -> dict[str, int]:
    """Return the tokens of a vocabulary that may be whole words, by their text."""
    forms = vocabulary_of(tokenizer).forms
    return {form.text: id for id, form in enumerate(forms) if form.starts_word or form.is_word}


def check_columns(source: Mapping[str, int], target: Mapping[str, int], lexicon: BilingualLexicon) -> None:
    """Validate that a dictionary does not have its columns swapped.

    Args:
        source: The words of the source language that are known, by `whole_words`.
        target: The words of the target language that are known, or the words of its text; the numbers do not matter.
        lexicon: The dictionary.

    Raises:
        InputError: Far more entries fit the other way round.
    """
    fitting = find_correspondences(lexicon, source, target).entries_used
    swapped = find_correspondences(lexicon.swapped(), source, target).entries_used
    if swapped >= max(10, 3 * fitting, SWAPPED * len(lexicon)):
        raise InputError(
            f"the columns of {lexicon.name or 'the dictionary'} look swapped: of {len(lexicon):,} entries, {swapped:,} "
            f"have a word of the text first and one of the model second, and {fitting:,} the other way round, as they "
            f"should: {IF_SWAPPED}"
        )


def _is_token(word: str, vocabulary: Vocabulary) -> bool:
    """Whether a word of a script without spaces is a token that no space comes before.

    Many tokenizers put a space before a text, so such a word, encoded alone, is not the token of running text.
    """
    return bool(word) and is_unspaced(word[0]) and TokenForm(word) in vocabulary.ids_by_form


def _without_special(rows: list[list[int]], vocabulary: Vocabulary) -> list[list[int]]:
    """Return rows of ids without special tokens: the unknown token is no word, and no part of one."""
    return [[id for id in row if not vocabulary.forms[id].is_special] for row in rows]


def _averages(rows: list[list[int]], weights: np.ndarray, columns: int) -> scipy.sparse.csr_array:
    """Return a matrix [rows × columns] in which each row's ids share its weight equally."""
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    data = np.repeat(weights / np.maximum(lengths, 1), lengths)
    matrix = scipy.sparse.csr_array(
        (data, np.array([id for row in rows for id in row], np.int64), indptr), (len(rows), columns)
    )
    matrix.sum_duplicates()
    return matrix
