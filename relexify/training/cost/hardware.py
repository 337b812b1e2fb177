"""GPUs by their data sheets, and how much of them training can use. This module does not import torch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from relexify.errors import check_number
from relexify.registry import choose

__all__ = ["GPUS", "MOST_GPUS", "USABLE", "USED_BANDWIDTH", "Gpu", "choose_gpus", "utilisation_of"]

MOST_GPUS = 1024
"""Maximum number of GPUs of a training."""

MEASURED_UTILISATION = ((576, 0.353), (2048, 0.573))
"""Two widths of models, each with the share of a GPU's bfloat16 peak (data sheet) that training reaches, without the
optimiser. Measured on an H200 (989 TFLOP/s) with 64 × 512 tokens per step:

- Width 576, the shape of SmolLM2-135M-Instruct, with the plan `direct`: 400,197 tokens/s, at 0.86 billion operations
  per token, are 349 TFLOP/s if the optimiser takes 1.1 ms of the 82 ms of a step.
- Width 2048, 1.68 billion parameters: 54,304 tokens/s are 567 TFLOP/s if the optimiser takes 14 of 603 ms.
"""
USED_BANDWIDTH = 0.7
"""Share of a GPU's memory bandwidth (data sheet) that an optimiser reaches. Measured on an H200: a step of AdamW for
125 million parameters, which reads and writes 3.5 GB, took 1.0 ms."""
USABLE = 0.92
"""Share of a GPU's memory that a training can use; the rest is for CUDA itself, and lost between allocations."""


@dataclass(frozen=True)
class Gpu:
    """A GPU by its data sheet.

    Attributes:
        operations: Operations per second in bfloat16, without sparsity.
        memory: Size of its memory in bytes.
        bandwidth: Bytes of memory that it reads or writes per second.
    """

    operations: float
    memory: float
    bandwidth: float


GPUS: Mapping[str, Gpu] = {
    "a100": Gpu(312e12, 80e9, 2.0e12),
    "h100": Gpu(989e12, 80e9, 3.35e12),
    "h200": Gpu(989e12, 141e9, 4.8e12),
    "l40s": Gpu(362e12, 48e9, 0.86e12),
}
"""The possible values of `gpu` in `estimate`."""


def choose_gpus(gpu: str | Gpu, gpus: int | None) -> Gpu:
    """Validate the name and the number of GPUs, and return the data of this kind of GPU.

    Raises:
        InputError: There is no such GPU, or the number is not possible.
    """
    check_number("gpus", gpus, 1, MOST_GPUS)
    return GPUS[choose(gpu, GPUS, "GPU")] if isinstance(gpu, str) else gpu


def utilisation_of(width: int) -> float:
    """Return the share of a GPU's peak that training reaches, by the model's width; small micro-batches reach less.

    Between the two measured widths, the share is linear in the logarithm of the width; outside, it is constant.
    """
    (narrow, least), (wide, most) = MEASURED_UTILISATION
    position = math.log(max(1, width) / narrow) / math.log(wide / narrow)
    return least + (most - least) * min(1.0, max(0.0, position))
