"""The whole words of a mixture, and how much of each word comes from its own spelling.

A mixture records weights, but not the evidence for each weight. The spelling of a source token, however, shows whether
it is a part of the word itself (a source piece) or not (a translation or a neighbour).
"""

from __future__ import annotations

import unicodedata

import numpy as np

from relexify.mixture.mixture import Mixture, Origin
from relexify.text import is_unspaced
from relexify.tokens import TokenForm

__all__ = ["is_part_of", "spelling_shares", "words_of"]

LETTERS = 3
"""Minimum number of letters of a word between spaces: most shorter tokens are only the beginnings of words."""


def words_of(mixture: Mixture) -> list[int]:
    """Return the ids of the target tokens that are whole words, judging by their spelling, without special tokens.

    A whole word consists of at least three letters after a space, or of any number of letters in a script without
    spaces. If there are no such tokens, shorter words are returned; if there are none of these either, all tokens. They
    are ordered by id: trained tokenizers sort tokens by merge order or by score, so frequent tokens come first.
    """
    ids = [int(id) for id in np.flatnonzero(mixture.origin != Origin.SPECIAL)]
    forms = {id: mixture.target_spelling.read(mixture.target_tokens[id]) for id in ids}
    words = [id for id in ids if forms[id].is_word]
    return [id for id in words if _is_long(forms[id].text)] or words or ids


def spelling_shares(mixture: Mixture, ids: list[int]) -> np.ndarray:
    """Return the share of each target token's absolute weight on parts of its own spelling; 0 for empty rows."""
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
    """Whether a source token is a part of a word: its beginning if the token follows a space, else any substring.

    Case and marks are ignored, because some tokenizers remove them. A space is a part of every word.
    """
    if source.is_byte:  # its text may begin with the space before the word
        return source.text.encode("utf-8", "surrogateescape") in word.surface.encode("utf-8", "surrogateescape")
    pairs = ((source.text.strip(), word.text), (_fold(source.text) or source.text, _fold(word.text)))
    if source.starts_word:
        return any(whole.startswith(part) for part, whole in pairs)
    return any(part in whole for part, whole in pairs)


def _is_long(text: str) -> bool:
    """Whether a word has enough letters; a Hangul syllable counts as two or three letters."""
    return is_unspaced(text[:1]) or len(unicodedata.normalize("NFD", text)) >= LETTERS


def _fold(text: str) -> str:
    decomposed = unicodedata.normalize("NFKD", text)
    return "".join(each for each in decomposed if unicodedata.category(each) != "Mn").casefold()
