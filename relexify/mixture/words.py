"""The whole words of a mixture, and how much of each comes from its own spelling.

A mixture records weights, but not why a source token has its weight. What the weights do tell is whether a source token
is a part of the word itself, as source pieces are, or another token, as translations and neighbours are.
"""

from __future__ import annotations

import unicodedata

import numpy as np

from relexify.mixture.mixture import Mixture, Origin
from relexify.text import is_unspaced
from relexify.tokens import TokenForm

__all__ = ["is_part_of", "spelling_shares", "words_of"]

LETTERS = 3
"""Fewest letters of a word between spaces: shorter tokens are mostly the beginnings of words."""


def words_of(mixture: Mixture) -> list[int]:
    """Return the ids of the target tokens that are whole words, as far as their spelling tells, without special tokens.

    These are letters after a space, at least three, or any number in a script without spaces. If there are none,
    shorter words are returned, and if there are none either, all tokens. The order is that of the ids: trained
    tokenizers sort tokens by the order of their merges, or by score, so that frequent ones come first.
    """
    ids = [int(id) for id in np.flatnonzero(mixture.origin != Origin.SPECIAL)]
    forms = {id: mixture.target_spelling.read(mixture.target_tokens[id]) for id in ids}
    words = [id for id in ids if forms[id].is_word]
    return [id for id in words if _is_long(forms[id].text)] or words or ids


def spelling_shares(mixture: Mixture, ids: list[int]) -> np.ndarray:
    """Return the share of the absolute weight of each target token on parts of its own spelling; 0 for empty rows."""
    columns = np.unique(mixture.weights[ids].indices).tolist() if ids else []
    forms = {column: mixture.source_spelling.read(mixture.source_tokens[column]) for column in columns}
    shares = np.zeros(len(ids))
    for index, id in enumerate(ids):
        row = slice(mixture.weights.indptr[id], mixture.weights.indptr[id + 1])
        weights = np.abs(mixture.weights.data[row])
        word = mixture.target_spelling.read(mixture.target_tokens[id])
        inside = [is_part_of(forms[int(column)], word) for column in mixture.weights.indices[row]]
        if weights.any():
            shares[index] = weights[inside].sum() / weights.sum()
    return shares


def is_part_of(source: TokenForm, word: TokenForm) -> bool:
    """Whether a source token is a part of a word: at its start if it follows a space, and else anywhere.

    Case and marks do not count, since some tokenizers remove them. A space is a part of every word.
    """
    if source.is_byte:  # its text may begin with the space
        return source.text.encode("utf-8", "surrogateescape") in word.surface.encode("utf-8", "surrogateescape")
    pairs = ((source.text.strip(), word.text), (_fold(source.text) or source.text, _fold(word.text)))
    return any(whole.startswith(part) if source.starts_word else part in whole for part, whole in pairs)


def _is_long(text: str) -> bool:
    """Whether a word has enough letters; those of a Hangul syllable are counted one by one."""
    return is_unspaced(text[:1]) or len(unicodedata.normalize("NFD", text)) >= LETTERS


def _fold(text: str) -> str:
    decomposed = unicodedata.normalize("NFKD", text)
    return "".join(each for each in decomposed if unicodedata.category(each) != "Mn").casefold()
