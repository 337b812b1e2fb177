"""Codes of tokens: every token is written with k digits, and each digit picks a row of its own small table.

Algorithm 1 of "Reconstructing word embeddings via scattered k-sub-embedding" counts: token n has the digits of n in
base M. Algorithm 2 clusters, and lies in `clustering.py`. Random codes know as little as counted ones, and make use of
all rows of all tables. Whatever makes them, no two tokens may have one code.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from relexify.errors import InputError

__all__ = ["check_codes", "digit_codes", "random_codes", "smallest_base", "split_width", "table_sizes"]

COUNTABLE = 2**62
"""More codes than these cannot be numbered in 64 bits."""


def smallest_base(tokens: int, k: int) -> int:
    """M = ⌈N^(1/k)⌉, the fewest rows a table needs for N tokens; in integers, since a float's root may be off by one.

    Args:
        tokens: N.
        k: Digits of a code.

    Raises:
        InputError: There is no token or no digit.
    """
    if tokens < 1 or k < 1:
        raise InputError(f"{tokens} tokens cannot be written with {k} digits: give at least one of each")
    low, high = 1, tokens
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if middle**k >= tokens else (middle + 1, high)
    return low


def digit_codes(tokens: int, k: int, base: int | Sequence[int] | None = None) -> np.ndarray:
    """Algorithm 1: the digits of every token's number in base M, [N × k], the lowest digit first.

    f_i(n) = ⌊n / M^(i-1)⌋ mod M; the paper prints "mod M^k" beside the remark that it means the k-th digit.

    Args:
        tokens: N.
        k: Digits of a code.
        base: M, or one for each digit; the smallest that suffices, if not given.

    Raises:
        InputError: M^k < N.
    """
    base = smallest_base(tokens, k) if base is None else base
    bases = [base] * k if isinstance(base, int) else list(base)
    check_room(tokens, bases)
    codes = np.empty((tokens, k), dtype=np.int32)
    rest = np.arange(tokens)
    for place, each in enumerate(bases):
        rest, codes[:, place] = np.divmod(rest, each)
    return codes


def random_codes(tokens: int, k: int, base: int | None = None, *, seed: int = 0) -> np.ndarray:
    """A different code for every token, drawn from all that there are, [N × k].

    Where tables have more rows than they need, counted codes leave most rows of the last one out; these do not.

    Args:
        tokens: N.
        k: Digits of a code.
        base: M; the smallest that suffices, if not given.
        seed: Of the draw.

    Raises:
        InputError: M^k < N.
    """
    base = smallest_base(tokens, k) if base is None else base
    check_room(tokens, [base] * k)
    draw = np.random.default_rng(seed)
    if base**k > COUNTABLE:  # so many that a draw does not meet itself again
        return check_codes(draw.integers(0, base, (tokens, k)), tokens)
    rest = draw.choice(base**k, tokens, replace=False)
    codes = np.empty((tokens, k), dtype=np.int32)
    for place in range(k):
        rest, codes[:, place] = np.divmod(rest, base)
    return codes


def check_room(tokens: int, bases: Sequence[int]) -> None:
    """Refuse tables that have too few codes for N tokens.

    Raises:
        InputError: M^k < N.
    """
    least = smallest_base(tokens, len(bases))
    if min(bases) < 1 or math.prod(bases) < tokens:
        codes = math.prod(max(0, each) for each in bases)
        raise InputError(
            f"{len(bases)} tables of {', '.join(map(str, bases))} rows make {codes:,} codes, too few for {tokens:,} "
            f"tokens: give {least} rows each or more, or more tables"
        )


def check_codes(codes: np.ndarray, tokens: int) -> np.ndarray:
    """The codes as int32 [N × k], once they are known to be sound.

    Raises:
        InputError: They are no matrix of digits with a row a token, or two tokens have one code.
    """
    codes = np.asarray(codes)
    if codes.ndim != 2 or len(codes) != tokens or not codes.shape[1] or codes.dtype.kind not in "iu":
        raise InputError(f"the codes are {codes.dtype} {list(codes.shape)}: expected whole numbers [{tokens} × k]")
    if tokens and codes.min() < 0:
        raise InputError("a code has a negative digit: digits are rows of tables, from 0 on")
    repeated = tokens - len(np.unique(codes, axis=0))
    if repeated:
        raise InputError(f"{repeated} tokens have the code of another: every token needs one of its own")
    return np.ascontiguousarray(codes, dtype=np.int32)


def table_sizes(codes: np.ndarray, base: int = 1) -> list[int]:
    """Rows of each table: as many as its digits need, and at least `base`."""
    return [max(base, int(each)) for each in codes.max(axis=0, initial=0) + 1]


def split_width(width: int, k: int) -> list[int]:
    """The widths of k tables that lie side by side in a row of `width`, as even as can be; nothing is padded.

    Raises:
        InputError: There are more tables than columns.
    """
    if not 1 <= k <= width:
        raise InputError(f"an embedding that is {width} wide cannot be cut into {k} parts: give a k from 1 to {width}")
    return [width // k + (place < width % k) for place in range(k)]
