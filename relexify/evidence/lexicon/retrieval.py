"""Measure how well aligned vectors translate: the share of words whose nearest neighbour is a translation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from relexify.neighbours import nearest, normalise_rows

__all__ = ["Quality", "csls_nearest", "translation_quality"]

BLOCK_ROWS = 256


@dataclass(frozen=True)
class Quality:
    """Retrieval quality of a rotation on words that it was not fitted on.

    Attributes:
        precision: Share of words whose nearest target word by cosine is a listed translation (P@1).
        csls_precision: P@1 by cross-domain similarity local scaling (CSLS), which penalises hubs.
        words: Number of source words that were tested.
        candidates: Number of target words that were candidates.
    """

    precision: float
    csls_precision: float
    words: int
    candidates: int


def translation_quality(
    queries: np.ndarray, keys: np.ndarray, background: np.ndarray, translations: Sequence[frozenset[int]]
) -> Quality:
    """Measure P@1; any listed translation is correct.

    Args:
        queries: Source words in the target space [n × d].
        keys: Candidate target words [m × d].
        background: Frequent source words in the target space [b × d], with which CSLS recognises hubs.
        translations: For each query, the correct rows of `keys`.
    """
    by_cosine = nearest(queries, keys, 1)[0][:, 0]
    by_csls = csls_nearest(queries, keys, background)
    return Quality(
        precision=_share_right(by_cosine, translations),
        csls_precision=_share_right(by_csls, translations),
        words=len(queries),
        candidates=len(keys),
    )


def csls_nearest(queries: np.ndarray, keys: np.ndarray, background: np.ndarray, *, k: int = 10) -> np.ndarray:
    """Return the best key for each query by cross-domain similarity local scaling (CSLS; Conneau et al., 2018).

    CSLS(x, y) = 2 cos(x, y) − r(x) − r(y), where r is the mean cosine to the k nearest words of the other language.
    r(x) is the same for all keys y of a query and does not change the best key, so it is not computed.

    Args:
        queries: [n × d].
        keys: [m × d].
        background: Vectors of the queries' language [b × d], for the means r(y) of the keys.
        k: Number of neighbours in the means.

    Returns:
        The row of the best key, int64 [n].
    """
    crowding = nearest(keys, background, k)[1].mean(axis=1)
    # A zero key has no direction; its r is zero, but it must not win.
    crowding[~np.any(keys, axis=1)] = np.inf
    queries, columns = normalise_rows(queries), normalise_rows(keys).T
    best = np.empty(len(queries), dtype=np.int64)
    for start in range(0, len(queries), BLOCK_ROWS):
        block = slice(start, start + BLOCK_ROWS)
        best[block] = np.argmax(2.0 * (queries[block] @ columns) - crowding, axis=1)
    return best


def _share_right(answers: np.ndarray, translations: Sequence[frozenset[int]]) -> float:
    right = sum(int(answer) in listed for answer, listed in zip(answers, translations, strict=True))
    return right / len(translations) if translations else 0.0
