"""GPUs by their data sheets, and how much of them training can use. This module does not import torch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from relexify.errors import check_number
from relexify.registry import choose

__all__ = ["GPUS", "MOST_GPUS", "USABLE", "USED_BANDWIDTH", "Gpu", "choose_gpus", "utilisation_of"]

MOST_GPUS = 1024
"""GPUs of one training, at most."""

MEASURED_UTILISATION = ((576, 0.353), (2048, 0.573))
"""Widths of models, and the share of a GPU's bfloat16 peak (data sheet) that training them reaches, without the
optimiser. Measured on an H200 with 64 × 512 tokens per step: 400,197 tokens/s with the plan `direct` and the shape of
SmolLM2-135M-Instruct, at 0.86 billion operations per token, are 349 of 989 TFLOP/s if the optimiser takes 1.1 ms of the
82 ms of a step; 54,304 tokens/s with 1.68 billion parameters are 567 if it takes 14 of 603 ms."""
USED_BANDWIDTH = 0.7
"""Share of the bandwidth of its memory (data sheet) that an optimiser reaches. Measured on an H200: a step of AdamW for
125 million numbers, which reads and writes 3.5 GB, took 1.0 ms."""
USABLE = 0.92
"""Share of a GPU's memory that a training can use: the rest is for CUDA itself, and lost between allocations."""


@dataclass(frozen=True)
class Gpu:
    """A GPU by its data sheet.

    Attributes:
        operations: Operations per second in bfloat16, without sparsity.
        memory: Bytes.
        bandwidth: Bytes of its memory that it reads or writes per second.
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
    """Return a kind of GPU by its name, after validating it and the number of them.

    Raises:
        InputError: There is no such GPU, or the number is not possible.
    """
    check_number("gpus", gpus, 1, MOST_GPUS)
    return GPUS[choose(gpu, GPUS, "GPU")] if isinstance(gpu, str) else gpu


def utilisation_of(width: int) -> float:
    """Return the share of a GPU's peak that training a model of some width reaches; small micro-batches reach less.

    It is linear in the logarithm of the width between the measured ones, and constant beyond them.
    """
    (narrow, least), (wide, most) = MEASURED_UTILISATION
    position = math.log(max(1, width) / narrow) / math.log(wide / narrow)
    return least + (most - least) * min(1.0, max(0.0, position))
