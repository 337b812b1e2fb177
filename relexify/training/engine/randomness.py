"""Restore the random state of the caller after a Trainer has set seeds."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

__all__ = ["isolated_randomness"]


@contextmanager
def isolated_randomness() -> Iterator[None]:
    """Let the code inside seed and draw random numbers, and restore the state of Python, numpy and torch after it."""
    python_state, numpy_state = random.getstate(), np.random.get_state()  # noqa: NPY002 (the Trainer seeds the legacy one)
    with torch.random.fork_rng():
        try:
            yield
        finally:
            random.setstate(python_state)
            np.random.set_state(numpy_state)  # noqa: NPY002
