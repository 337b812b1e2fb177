"""Fit the tables to an embedding, and measure the reconstruction error.

Row n of the embedding is approximated by the concatenation of one row from each of k tables. Every column belongs to
only one table, so the squared error, for table i, is a sum over the rows of the table,

    Σ_n w_n |E[n, block i] - T_i[f_i(n)]|²  =  Σ_m Σ_{n: f_i(n) = m} w_n |E[n, block i] - T_i[m]|²,

and the least-squares row m of table i is the (weighted) mean of block i over the tokens whose i-th digit is m. No
system of equations needs to be solved.
"""

from __future__ import annotations

import numpy as np
import scipy

from relexify.errors import InputError
from relexify.neighbours import nearest_others

__all__ = ["block_means", "fitted_tables", "reconstruction_error", "shared_digits", "split_width"]

CHUNK = 65_536  # tokens
SAMPLE = 1_000
"""Number of tokens whose digits are compared."""


def split_width(width: int, k: int) -> list[int]:
    """Return the widths d_i of k tables whose sum is `width`, as equal as possible.

    Raises:
        InputError: There are more tables than columns.
    """
    if not 1 <= k <= width:
        raise InputError(f"an embedding of width {width} cannot be split into {k} tables: give a k from 1 to {width}")
    quotient, remainder = divmod(width, k)
    return [quotient + 1 if index < remainder else quotient for index in range(k)]


def block_means(
    block: np.ndarray,
    digits: np.ndarray,
    count: int,
    *,
    weights: np.ndarray | None = None,
    missing: np.ndarray | None = None,
) -> np.ndarray:
    """Return, for each digit, the mean of the rows of its tokens, float32 [count × d_i].

    Args:
        block: Columns of the embedding [N × d_i].
        digits: The digit of each token [N].
        count: Number of possible digits.
        weights: Weights of the tokens, such as their frequency [N]; if all tokens of a digit have weight zero, they are
            averaged with equal weights.
        missing: Rows for digits without tokens [count × d_i]; by default the mean of all tokens.
    """
    equal_weights = np.ones(len(digits))
    requested = equal_weights if weights is None else np.asarray(weights, dtype=np.float64)
    without_weight = np.bincount(digits, requested, minlength=count) <= 0
    token_weights = np.where(without_weight[digits], equal_weights, requested)
    totals = np.bincount(digits, token_weights, minlength=count)
    # [count × N] with the weight of token n in row f(n): its product with the block sums the tokens of each digit.
    by_digit = scipy.sparse.csr_array(
        (token_weights, (digits, np.arange(len(digits)))), shape=(count, len(digits)), dtype=np.float32
    )
    means: np.ndarray = (by_digit @ block) / np.maximum(totals, 1e-30)[:, None]
    unused = totals == 0
    means[unused] = block.mean(axis=0) if missing is None else missing[unused]
    return means.astype(np.float32)


def fitted_tables(
    rows: np.ndarray, codes: np.ndarray, sizes: list[int], *, weights: np.ndarray | None = None
) -> list[np.ndarray]:
    """Return the tables that reconstruct an embedding with the least squared error for given codes.

    Args:
        rows: The embedding [N × d].
        codes: [N × k].
        sizes: Number of rows of each table.
        weights: Weights of the tokens, such as their frequency [N].

    Returns:
        k tables [M_i × d_i].
    """
    edges = np.cumsum([0, *split_width(rows.shape[1], codes.shape[1])])
    return [
        block_means(rows[:, edges[index] : edges[index + 1]], codes[:, index], size, weights=weights)
        for index, size in enumerate(sizes)
    ]


def reconstruction_error(rows: np.ndarray, codes: np.ndarray, tables: list[np.ndarray]) -> float:
    """Return |E - Ê| / |E| in the Frobenius norm: 0 for a perfect reconstruction, 1 for tables of zeros."""
    squared_error = squared_norm = 0.0
    for start in range(0, len(rows), CHUNK):
        part, digits = rows[start : start + CHUNK], codes[start : start + CHUNK]
        approximation = np.concatenate([table[digits[:, index]] for index, table in enumerate(tables)], axis=1)
        squared_error += float(np.square(part - approximation, dtype=np.float64).sum())
        squared_norm += float(np.square(part, dtype=np.float64).sum())
    return float(np.sqrt(squared_error / squared_norm)) if squared_norm else 0.0


def shared_digits(rows: np.ndarray, codes: np.ndarray, *, seed: int = 0) -> tuple[float, float]:
    """Return the average number of digits that a token shares with its nearest neighbour by cosine, and a random token.

    Args:
        rows: The embedding that the codes represent [N × d].
        codes: [N × k].
        seed: Random seed of the sample and of the random tokens.
    """
    draw = np.random.default_rng(seed)
    count = len(rows)
    sample = draw.choice(count, min(SAMPLE, count), replace=False)
    sample = sample[np.any(rows[sample] != 0, axis=1)]  # a row of zeros has no cosine
    if not len(sample):
        return 0.0, 0.0
    neighbours, _ = nearest_others(rows[sample], rows, 1, own=sample)
    if not neighbours.shape[1]:  # all other rows are zero
        return 0.0, 0.0
    others = (sample + draw.integers(1, count, len(sample))) % count
    with_neighbour = (codes[sample] == codes[neighbours[:, 0]]).sum(axis=1).mean()
    with_other = (codes[sample] == codes[others]).sum(axis=1).mean()
    return float(with_neighbour), float(with_other)
