"""GPUs by their data sheets, and how much of them training can use. This module does not import torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["GPUS", "USABLE", "UTILISATION", "Gpu"]

UTILISATION = 0.35
"""Share of a GPU's bfloat16 peak (data sheet) that training reaches. Measured on one H200 with the shape of
SmolLM2-135M-Instruct and 64 × 512 tokens per step: 400,197 tokens/s with the plan `direct` (`docs/results.md`), at 0.86
billion operations per token, are 344 of 989 TFLOP/s. The same share of Muon's operations predicts 383,000 tokens/s for
the plan `relexify`, where 374,736 were measured. Wider matrices reach more, small micro-batches less."""
USABLE = 0.92
"""Share of a GPU's memory that a training can use: the rest is for CUDA itself, and lost between allocations."""


@dataclass(frozen=True)
class Gpu:
    """A GPU by its data sheet.

    Attributes:
        operations: Operations per second in bfloat16, without sparsity.
        memory: Bytes.
    """

    operations: float
    memory: float


GPUS: Mapping[str, Gpu] = {
    "a100": Gpu(312e12, 80e9),
    "h100": Gpu(989e12, 80e9),
    "h200": Gpu(989e12, 141e9),
    "l40s": Gpu(362e12, 48e9),
}
"""The possible values of `gpu` in `estimate`."""
