"""A model of the same shape that knows nothing."""

from __future__ import annotations

import copy
from typing import Any

import torch

__all__ = ["fresh_twin"]


def fresh_twin(model: Any, *, seed: int = 0) -> Any:
    """The same architecture and vocabulary with random parameters, as its authors would begin; in the same dtype.

    Args:
        model: A transformers model; it stays as it is.
        seed: Of the parameters.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        twin = type(model)(copy.deepcopy(model.config))
    with torch.no_grad():
        for name, buffer in model.named_buffers():  # such as the codes of sub-embeddings: how it is built, not learnt
            twin.get_buffer(name).copy_(buffer)
    return twin.to(model.dtype).eval()
