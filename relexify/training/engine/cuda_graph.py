"""The forward and backward pass of a step as one CUDA graph.

With a small model, a fast GPU waits for the CPU, which launches a thousand kernels per step. All steps launch the same
kernels on arrays of the same shapes, so they are recorded once and replayed, with one launch per step.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

import torch

from relexify.errors import first_line

__all__ = ["CapturedPass"]

WARM_CALLS = 3
"""Calls before the recording, for compilation and for what libraries allocate when they are first used."""

Arrays = Mapping[str, torch.Tensor]

logger = logging.getLogger(__name__)


class CapturedPass:
    """Calls a pass a few times, records it, and from then on replays the recording.

    Args:
        run: Takes arrays on a GPU, returns the loss, and adds gradients to the parameters.
        parameters: All parameters that get a gradient.
        accumulates: Whether gradients of several calls are summed before they are used.
    """

    def __init__(
        self, run: Callable[[Arrays], torch.Tensor], parameters: Sequence[torch.Tensor], *, accumulates: bool
    ) -> None:
        self.run, self.parameters, self.accumulates = run, parameters, accumulates
        self.calls = 0
        self.recording: _Recording | None = None

    def __call__(self, arrays: Arrays) -> torch.Tensor:
        """Return the loss; gradients are where an ordinary backward pass leaves them."""
        self.calls += 1
        if self.calls == WARM_CALLS + 1:
            self.recording = self._record(arrays)
        if self.recording is None or not self.recording.fits(arrays):
            return self.run(arrays)
        loss, gradients = self.recording.replay(arrays)
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            if gradient is None:
                continue
            if not self.accumulates:
                parameter.grad = gradient
            elif parameter.grad is None:
                parameter.grad = gradient.clone()
            else:
                parameter.grad += gradient
        return loss

    def _record(self, arrays: Arrays) -> _Recording | None:
        """Return the recording, or None if the pass does something that cannot be recorded."""
        before = [parameter.grad for parameter in self.parameters]
        for parameter in self.parameters:
            parameter.grad = None
        try:
            return _Recording(self.run, arrays, self.parameters)
        except RuntimeError as error:
            reason = first_line(error.__context__ or error)
            logger.warning("steps cannot be recorded as a CUDA graph and are launched one by one: %s", reason)
            torch.cuda.synchronize()
            return None
        finally:
            for parameter, gradient in zip(self.parameters, before, strict=True):
                parameter.grad = gradient


class _Recording:
    """A CUDA graph with the arrays that it reads and writes."""

    def __init__(
        self, run: Callable[[Arrays], torch.Tensor], arrays: Arrays, parameters: Sequence[torch.Tensor]
    ) -> None:
        self.inputs = {name: array.clone() for name, array in arrays.items()}
        self.graph = torch.cuda.CUDAGraph()
        # Only this thread is watched, so that the one that pins the next batch may continue.
        with torch.cuda.graph(self.graph, capture_error_mode="thread_local"):
            self.loss = run(self.inputs)
        self.gradients = [parameter.grad for parameter in parameters]

    def fits(self, arrays: Arrays) -> bool:
        """Whether the arrays have the shapes that were recorded."""
        return {name: array.shape for name, array in arrays.items()} == {
            name: array.shape for name, array in self.inputs.items()
        }

    def replay(self, arrays: Arrays) -> tuple[torch.Tensor, list[torch.Tensor | None]]:
        """Return loss and gradients; the gradients are overwritten by the next call."""
        for name, array in arrays.items():
            self.inputs[name].copy_(array, non_blocking=True)
        self.graph.replay()
        return self.loss.clone(), self.gradients
