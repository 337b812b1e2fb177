"""Fast, inexact products of queries with all keys, and a bound on their error.

On a CPU with instructions for dot products of 8-bit integers (ARM, and x86 with VNNI), integer products take a third to
a fifth of the time of products in float32. Their only error comes from rounding the inputs, and is known for every row:
with q = q̂ + e and k = k̂ + f,

    |q·k − q̂·k̂| = |e·k + q̂·f| ≤ |e| |k| + |q̂| |f|

This bound limits the candidates among which the largest exact products are found (`search.py`).
"""

from __future__ import annotations

import platform
import threading
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import torch

__all__ = ["Product", "float32_product", "int8_product"]

Product = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray]]
"""Takes queries [b × d], and returns scores [b × m], their largest possible errors [b], and factors [b].

Scores are float32 or int32. A score differs from factor · exact product by at most the error; factor and error are
those of its row. This also holds for the exact product rounded to float32. The next call in the same thread overwrites
the scores: allocating memory for every block would take half as long as computing them."""

LEVELS = 127
"""The largest 8-bit integer. −128 is not used, so that the range is symmetric."""


def float32_product(keys: np.ndarray) -> Product:
    """Return the product with keys [m × d] in float32."""
    transposed, longest = keys.T, _lengths(keys).max()
    error = _rounding_errors(keys.shape[1]) * longest
    buffer = _RowBuffer(len(keys), np.float32)

    def multiply(queries: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        scores = np.matmul(queries, transposed, out=buffer.rows(len(queries)))
        return scores, _lengths(queries) * error, np.ones(len(queries))

    return multiply


def int8_product(keys: np.ndarray) -> Product | None:
    """Return the product with keys [m × d] in 8-bit integers, or None if torch has no exact one on this CPU.

    All keys have the same scale, so products can be compared without scaling them. The bound comes from the key with
    the largest error; a separate scale for every key would not reduce it.
    """
    integer_product = _choose_integer_product(keys.shape[1])
    if integer_product is None:
        return None
    key_scale = np.abs(keys).max(initial=np.finfo(np.float32).tiny * LEVELS) / np.float32(LEVELS)
    codes = np.empty(keys.shape, dtype=np.int8)
    longest = rounding = 0.0
    for start in range(0, len(keys), 4096):
        block = keys[start : start + 4096]
        rounded = _round(block, key_scale)
        codes[start : start + 4096] = rounded
        longest = max(longest, _lengths(block).max())
        rounding = max(rounding, _lengths(block - rounded * key_scale).max())
    product_with_codes = integer_product(codes)

    def multiply(queries: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        scales = np.abs(queries).max(axis=1, keepdims=True) / np.float32(LEVELS)
        scales[scales == 0] = 1
        rounded = _round(queries, scales)
        values = rounded * scales
        error = _lengths(queries - values) * longest + _lengths(values) * rounding
        # Float32 also rounds the bound itself and, on ARM, sums above 2^24.
        error += _rounding_errors(queries.shape[1]) * _lengths(queries) * longest
        factors = 1 / (scales[:, 0].astype(np.float64) * float(key_scale))
        return product_with_codes(rounded), error * factors, factors

    return multiply


IntegerProduct = Callable[[np.ndarray], np.ndarray]
"""Takes integers from −127 to 127, stored as float32 [b × d], and returns their products with the codes of all keys,
int32 or float32 [b × m]."""


def _choose_integer_product(width: int) -> Callable[[np.ndarray], IntegerProduct] | None:
    """Return a function that makes the product with codes, int8 [m × width]; None if this CPU has no exact one."""
    import torch

    if platform.machine() == "aarch64":
        # Quantised tensors are deprecated, so later versions of torch may not have them.
        has_tensors = hasattr(torch, "_make_per_tensor_quantized_tensor")
        has_engine = "onednn" in torch.backends.quantized.supported_engines
        return _quantised_linear if has_tensors and has_engine else None
    # Without oneDNN, torch computes integer products a hundred times more slowly.
    if not hasattr(torch, "_int_mm") or not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return None
    # x86 CPUs without VNNI add pairs of products in 16 bits, where large sums saturate. Test this with extreme values.
    largest = torch.full((16, width), LEVELS, dtype=torch.int8)
    pairs = ((largest, largest), (largest, -largest), (-largest, largest), (-largest, -largest))
    expected = width * LEVELS**2
    try:
        is_exact = all(bool((torch._int_mm(left, right.T).abs() == expected).all()) for left, right in pairs)
    except RuntimeError:
        return None
    return _integer_matrix_product if is_exact else None


def _integer_matrix_product(codes: np.ndarray) -> IntegerProduct:
    """Return the product that uses torch's integer matrix multiplication, for x86."""
    import torch

    keys = torch.from_numpy(codes).T
    buffer = _RowBuffer(len(codes), np.int32)

    def multiply(rounded: np.ndarray) -> np.ndarray:
        products = buffer.rows(len(rounded))
        torch._int_mm(torch.from_numpy(rounded).to(torch.int8), keys, out=torch.from_numpy(products))
        return products

    return multiply


def _quantised_linear(codes: np.ndarray) -> IntegerProduct:
    """Return the product that uses torch's quantised linear layers, for ARM."""
    import torch

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*quantized tensor creation functions", category=UserWarning)
        weights = torch._make_per_tensor_quantized_tensor(torch.from_numpy(codes), 1.0, 0)
    local = threading.local()
    # torch itself quantises the queries to 256 levels between their smallest and largest value. Two additional rows, of
    # −128 and of 127, make the distance between levels 1, so integers do not change.
    extremes = np.full((2, codes.shape[1]), [[-LEVELS - 1], [LEVELS]], dtype=np.float32)

    def multiply(rounded: np.ndarray) -> np.ndarray:
        if not hasattr(local, "packed"):  # packed keys include working memory, so each thread needs its own
            local.packed = _pack(weights)
        inputs = torch.from_numpy(np.concatenate([rounded, extremes]))
        products: np.ndarray = torch.ops.quantized.linear_dynamic(inputs, local.packed, False)[:-2].numpy()
        return products

    return multiply


class _RowBuffer(threading.local):
    """Rows that every thread allocates once and reuses.

    Args:
        width: Number of values in a row.
        dtype: Type of the values.
    """

    def __init__(self, width: int, dtype: type[np.number[Any]]) -> None:
        self.memory = np.empty((0, width), dtype=dtype)

    def rows(self, count: int) -> np.ndarray:
        """Return `count` rows; all calls in a thread return the same memory."""
        if len(self.memory) < count:
            self.memory = np.empty((count, self.memory.shape[1]), dtype=self.memory.dtype)
        return self.memory[:count]


def _round(rows: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Return the multiples of a scale that are closest to rows [n × d], from −127 to 127, as float32."""
    codes: np.ndarray = np.clip(np.rint(rows / scale), -LEVELS, LEVELS)
    return codes


def _pack(weights: torch.Tensor) -> object:
    """Return quantised keys [m × d] in the format that torch's quantised products need."""
    import torch

    engine = torch.backends.quantized.engine
    try:
        torch.backends.quantized.engine = "onednn"
        return torch.ops.quantized.linear_prepack(weights, None)
    finally:
        torch.backends.quantized.engine = engine


def _rounding_errors(width: int) -> float:
    """Return how much float32 changes a sum of products, relative to the lengths of the factors.

    To first order, a sum of d products has a relative error of at most d ε/2, in any order of summation; d ε also
    covers higher orders. Another 2 ε cover the rounding of exact products, so that all keys with the same rounded
    product are found.
    """
    return (width + 2) * float(np.finfo(np.float32).eps)


def _lengths(rows: np.ndarray) -> np.ndarray:
    """Return the Euclidean lengths of rows [n × d], float64 [n]."""
    lengths: np.ndarray = np.sqrt(np.einsum("nd,nd->n", rows, rows, dtype=np.float64))
    return lengths
