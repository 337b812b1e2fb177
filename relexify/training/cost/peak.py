"""Measure how fast this machine multiplies matrices, which is most of the work of a model."""

from __future__ import annotations

import time

import torch

__all__ = ["matrix_peak"]


def matrix_peak(dtype: torch.dtype, device: str | None = None) -> float:
    """Return the operations per second of a large matrix product on this machine.

    Args:
        dtype: The number format.
        device: The device; if None, a GPU if there is one.
    """
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    size, times = (8_192, 30) if device.startswith("cuda") else (1_024, 3)
    # Constants, so that no random generator advances.
    left, right = (torch.full((size, size), 0.5, device=device, dtype=dtype) for _ in range(2))

    def seconds() -> float:
        start = time.perf_counter()
        for _ in range(times):
            product = left @ right
        float(product[0, 0])  # wait until the GPU has finished
        return time.perf_counter() - start

    seconds()  # to warm up
    return 2 * size**3 * times / seconds()  # a product of n × n matrices takes n³ multiplications and n³ additions
