"""How often two tokens are linked."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from relexify.evidence.bitext.encoding import EncodedBitext, Side
from relexify.evidence.bitext.links import Links

__all__ = ["aligned_counts"]

_AT_ONCE = 1_000_000


def aligned_counts(pairs: EncodedBitext, links: Links, shape: tuple[int, int]) -> csr_array:
    """Count the links between target and source tokens.

    A link between two tokens counts one. A link between two words counts one for every token of the target word, in
    equal parts with each token of the source word.

    Args:
        pairs: The text that the links are of.
        links: Places in it.
        shape: Tokens of the target and of the source vocabulary.

    Returns:
        float64 [target × source].
    """
    counts = csr_array(shape, dtype=np.float64)
    for start in range(0, len(links), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        source = _tokens(pairs.source, links.line[part], links.source[part], shape[1])
        target = _tokens(pairs.target, links.line[part], links.target[part], shape[0])
        lengths = np.maximum(np.asarray(source.sum(axis=1)).ravel(), 1)
        source.data /= np.repeat(lengths, np.diff(source.indptr))
        counts = counts + target.T @ source
    counted = csr_array(counts)
    counted.sort_indices()
    return counted


def _tokens(side: Side, lines: np.ndarray, places: np.ndarray, tokens: int) -> csr_array:
    """The tokens of units, one row a unit, [n × tokens]."""
    units = side.lines[lines] + places
    starts, lengths = side.units[units], side.units[units + 1] - side.units[units]
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    within = np.arange(indptr[-1]) - np.repeat(indptr[:-1], lengths)
    ids = side.ids[np.repeat(starts, lengths) + within]
    return csr_array((np.ones(len(ids)), ids, indptr), shape=(len(units), tokens))
