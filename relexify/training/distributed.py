"""The processes that torchrun or accelerate started together."""

from __future__ import annotations

from datetime import timedelta

import torch
from accelerate import PartialState

__all__ = ["DISTRIBUTED_TIMEOUT", "started_processes"]

DISTRIBUTED_TIMEOUT = 24 * 3600
"""Seconds that processes wait for one another, since one of them may be packing a large corpus."""


def started_processes() -> PartialState:
    """Return the processes that torchrun or accelerate started together; without them, this one alone."""
    # Processes wait for the first one while it prepares text, which may take longer than the ten minutes of NCCL.
    return PartialState(cpu=not torch.cuda.is_available(), timeout=timedelta(seconds=DISTRIBUTED_TIMEOUT))
