"""Run a model without dropout, and check that its weights are finite and that it fits into memory."""

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
    """Put a model into evaluation mode, which turns off dropout, and restore its mode at the end."""
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)


def check_finite(model: PreTrainedModel) -> None:
    """Validate that no parameter has NaN or infinite values.

    This reads every parameter. A large model may be memory-mapped, so call it only where it is read completely anyway.

    Raises:
        InputError: A parameter has NaN or infinite values.
    """
    for name, parameter in model.named_parameters():
        # The minimum and the maximum take one pass and no copy; both are NaN if any value is NaN.
        if parameter.numel() and not torch.stack(parameter.detach().aminmax()).isfinite().all():
            raise InputError(
                f"the parameter {name} of {type(model).__name__} has NaN or infinite values: the weights are damaged, "
                "or their training failed; give an intact copy of the model, or an earlier checkpoint"
            )


def memory_shortage(model: PreTrainedModel, device: str) -> str | None:
    """Return a description of the needed and the free memory if a model does not fit; None if it fits.

    Memory-mapped parameters count, because a forward pass reads all of them.
    """
    needed, free = _WORKING * model.get_memory_footprint(), free_memory(device)
    if needed <= free:
        return None
    return f"needs about {format_size(needed)}, {format_size(free)} free"


def free_memory(device: str) -> int:
    """Return the free memory of a device in bytes; on the CPU, at most what the container's limit leaves."""
    if torch.device(device).type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    free = int(psutil.virtual_memory().available)
    group = Path("/sys/fs/cgroup")  # cgroup version 2; the files below exist only inside containers
    try:
        limit, used = (int((group / name).read_text()) for name in ("memory.max", "memory.current"))
    except (OSError, ValueError):  # without a limit, the file contains `max`
        return free
    return min(free, limit - used)
