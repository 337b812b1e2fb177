"""transformers, told that sequences are whole: no padding, and one text from the first place to the last."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any

__all__ = ["unpadded"]


@contextmanager
def unpadded() -> Iterator[None]:
    """Let decoders be called without a look at positions and masks, which waits for the GPU in every step.

    Without a mask, transformers reads the positions to find out whether several sequences were packed into one, and
    while a CUDA graph is recorded, where nothing can be read, it writes a causal mask out, with which fast attention
    cannot be used. Blocks of packed text attend across their whole length, so neither is needed here.
    """
    from transformers import masking_utils
    from transformers.utils import import_utils

    with ExitStack() as stack:
        stack.enter_context(_replaced(masking_utils, "find_packed_sequence_indices", lambda position_ids: None))
        stack.enter_context(_replaced(import_utils, "is_cuda_stream_capturing", lambda: False))
        yield


@contextmanager
def _replaced(module: ModuleType, name: str, stand_in: Callable[..., Any]) -> Iterator[None]:
    """A function of a module replaced for a while; versions that have no such function are left alone."""
    own = getattr(module, name, None)
    if own is None:
        yield
        return
    setattr(module, name, stand_in)
    try:
        yield
    finally:
        setattr(module, name, own)
