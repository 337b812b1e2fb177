"""What the rows of sub-embedding tables should be, and how much of an embedding they keep.

Row n of the embedding is written as the rows of k tables side by side. Every column belongs to one table only, so the
squared error falls apart into one sum for each table and each of its rows,

    Σ_n w_n |E[n, block i] - T_i[f_i(n)]|²  =  Σ_m Σ_{n: f_i(n) = m} w_n |E[n, block i] - T_i[m]|²,

and the least-squares row m of table i is the (weighted) mean of block i over the tokens whose i-th digit is m. No
system of equations is solved.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from relexify.neighbours import nearest
from relexify.systems.compression.codes import split_width

__all__ = ["block_means", "fitted_tables", "reconstruction_error", "shared_digits"]

CHUNK = 65_536


def block_means(
    block: np.ndarray,
    digits: np.ndarray,
    count: int,
    *,
    weights: np.ndarray | None = None,
    missing: np.ndarray | None = None,
) -> np.ndarray:
    """The mean of the rows of each digit, [count × d_i] in float32.

    Args:
        block: Columns of the embedding [N × d_i].
        digits: Of the tokens [N].
        count: Digits there may be.
        weights: Of the tokens, such as their frequency [N]; a digit with none at all is averaged as if all were equal.
        missing: Rows for digits that no token has [count × d_i]; the mean of all if not given.
    """
    plain = np.ones(len(digits))
    given = plain if weights is None else np.asarray(weights, dtype=np.float64)
    empty = np.bincount(digits, given, minlength=count) <= 0
    used = np.where(empty[digits], plain, given)
    totals = np.bincount(digits, used, minlength=count)
    spread = sparse.csr_array((used, (digits, np.arange(len(digits)))), shape=(count, len(digits)), dtype=np.float32)
    means: np.ndarray = (spread @ block) / np.maximum(totals, 1e-30)[:, None]
    unused = totals == 0
    means[unused] = block.mean(axis=0) if missing is None else missing[unused]
    return means.astype(np.float32)


def fitted_tables(
    rows: np.ndarray, codes: np.ndarray, sizes: list[int], *, weights: np.ndarray | None = None
) -> list[np.ndarray]:
    """The tables that give the rows back with the least squared error under these codes.

    Args:
        rows: An embedding [N × d].
        codes: [N × k].
        sizes: Rows of each table.
        weights: Of the tokens, such as their frequency [N].

    Returns:
        k tables [M_i × d_i].
    """
    edges = np.cumsum([0, *split_width(rows.shape[1], codes.shape[1])])
    return [
        block_means(rows[:, edges[place] : edges[place + 1]], codes[:, place], size, weights=weights)
        for place, size in enumerate(sizes)
    ]


def reconstruction_error(rows: np.ndarray, codes: np.ndarray, tables: list[np.ndarray]) -> float:
    """|E - Ê| / |E| in the Frobenius norm: 0 where the tables give the embedding back, 1 where they say nothing."""
    wrong = whole = 0.0
    for start in range(0, len(rows), CHUNK):
        part, digits = rows[start : start + CHUNK], codes[start : start + CHUNK]
        written = np.concatenate([table[digits[:, place]] for place, table in enumerate(tables)], axis=1)
        wrong += float(np.square(part - written, dtype=np.float64).sum())
        whole += float(np.square(part, dtype=np.float64).sum())
    return float(np.sqrt(wrong / whole)) if whole else 0.0


def shared_digits(rows: np.ndarray, codes: np.ndarray, *, sample: int = 1_000, seed: int = 0) -> tuple[float, float]:
    """How many digits a token shares with its nearest neighbour by cosine, and with a token at random, on average.

    Args:
        rows: The embedding that the codes stand for [N × d].
        codes: [N × k].
        sample: Tokens to look at.
        seed: Of the sample and of the tokens at random.
    """
    draw = np.random.default_rng(seed)
    count = len(rows)
    chosen = draw.choice(count, min(sample, count), replace=False)
    chosen = chosen[np.any(rows[chosen] != 0, axis=1)]
    if count < 2 or not len(chosen):
        return 0.0, 0.0
    found, _ = nearest(rows[chosen], rows, 2)
    # A token is its own neighbour, the first or, after an equal one, the second.
    others = np.where(found[:, 0] == chosen, found[:, -1], found[:, 0])
    strangers = (chosen + draw.integers(1, count, len(chosen))) % count
    alike, unlike = ((codes[chosen] == codes[each]).sum(axis=1).mean() for each in (others, strangers))
    return float(alike), float(unlike)
