"""Estimate how long a training takes on this machine: count its operations, and measure a matrix product."""

from __future__ import annotations

import torch
from transformers import PreTrainedModel

from relexify.pretrained.architecture import hidden_width
from relexify.pretrained.kinds import kind_of_config
from relexify.training.cost.hardware import utilisation_of
from relexify.training.cost.peak import matrix_peak
from relexify.training.cost.stage import stage_costs
from relexify.training.options import Training

__all__ = ["peak_share", "seconds_here"]

CPU_SHARE = 0.72
"""Speed of training on a CPU, as a share of the speed of a matrix product. Measured: 31 tokens/s with
SmolLM2-135M-Instruct on one core of a Neoverse-N1, in four measurements by `relexify estimate --measure` with two sizes
of steps and two plans."""
GPU_SHARE = 1.25
"""Speed of training on a GPU, as a share of the speed of a matrix product, is this factor times `utilisation_of`. That
function refers to the peak in the data sheet; an H200 multiplies matrices with 788 of its 989 TFLOP/s."""
FEW_OPERATIONS = 5e11
"""A training with fewer operations takes less than a minute on any CPU, so the machine is not measured."""


def seconds_here(model: PreTrainedModel, training: Training) -> float | None:
    """Return about how many seconds a training takes on this machine, without scoring; 0 if less than a minute.

    Return None for relexify's own kinds of models; their operations are not counted.

    Args:
        model: The model, which may be on the meta device.
        training: The options.
    """
    if kind_of_config(model.config) is not None:
        return None
    costs = stage_costs(model, training)
    operations = sum(cost.steps * (cost.per_step + training.tokens_per_step * cost.per_token) for cost in costs)
    if operations < FEW_OPERATIONS:
        return 0.0
    on_gpu = torch.cuda.is_available()
    share = peak_share(utilisation_of(hidden_width(model)), on_gpu=on_gpu)
    return operations / (share * matrix_peak(torch.bfloat16 if on_gpu else torch.float32))


def peak_share(utilisation: float, *, on_gpu: bool) -> float:
    """Return the share of the speed of a large matrix product that a training is expected to reach.

    Args:
        utilisation: The result of `utilisation_of` for the width of the model.
        on_gpu: Whether the model is trained on a GPU.
    """
    return GPU_SHARE * utilisation if on_gpu else CPU_SHARE
