"""Run a model: without dropout, if its weights are finite and it fits into memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import torch
from torch import nn
from transformers import PreTrainedModel

from relexify.errors import InputError
from relexify.storage.files import format_size

__all__ = ["check_finite", "evaluating", "free_memory", "memory_shortage"]

_WORKING = 1.1
"""Memory for parameters and the activations of a forward pass, relative to the parameters alone."""


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Put a model into evaluation mode for a while, which turns dropout off."""
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)


def check_finite(model: PreTrainedModel) -> None:
    """Validate that no parameter has NaN or infinite values.

    This reads every parameter, so call it where they are read anyway: a large model may be mapped from files.

    Raises:
        InputError: One has.
    """
    for name, parameter in model.named_parameters():
        # Least and largest value: one pass and no copy, and both are NaN if any value is.
        if parameter.numel() and not torch.stack(parameter.detach().aminmax()).isfinite().all():
            raise InputError(
                f"the parameter {name} of {type(model).__name__} has NaN or infinite values: the weights are damaged, "
                "or their training failed; give an intact copy of the model, or an earlier checkpoint"
            )


def memory_shortage(model: PreTrainedModel, device: str) -> str | None:
    """Say by how much a model does not fit into memory; None if it fits.

    Parameters that are mapped from files count, because a forward pass reads all of them.
    """
    needed, free = _WORKING * model.get_memory_footprint(), free_memory(device)
    if needed <= free:
        return None
    return f"needs about {format_size(needed)}, {format_size(free)} free"


def free_memory(device: str) -> int:
    """Return the free memory of a device in bytes; for the CPU, within the limit of the container."""
    if torch.device(device).type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    free = int(psutil.virtual_memory().available)
    group = Path("/sys/fs/cgroup")  # version 2; the root of a machine without containers has no such files
    try:
        limit, used = (int((group / name).read_text()) for name in ("memory.max", "memory.current"))
    except (OSError, ValueError):  # a limit that is not set reads `max`
        return free
    return min(free, limit - used)
