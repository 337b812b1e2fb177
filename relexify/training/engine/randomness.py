"""The caller's random state, given back after a Trainer has set seeds."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

__all__ = ["isolated_randomness"]


@contextmanager
def isolated_randomness() -> Iterator[None]:
    """Let what happens inside seed and draw as it likes, and leave no trace of it."""
    python, arrays = random.getstate(), np.random.get_state()  # noqa: NPY002 (the Trainer seeds the legacy one)
    with torch.random.fork_rng():
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(arrays)  # noqa: NPY002
