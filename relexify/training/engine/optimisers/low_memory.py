"""AdamW of the package bitsandbytes, whose moments have 8 bits or are paged, beside Muon for inner matrices.

Moments of 8 bits (Dettmers et al., 2022) are quantised in blocks of 256 numbers, each with the largest of its block in
float32. Those of parameters with fewer than 4,096 numbers stay in float32. Paged moments are in memory that CUDA moves
between GPU and host as needed. bitsandbytes does not page on a CPU, but computes the same there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from bitsandbytes.optim import AdamW

from relexify.training.engine.optimisers.muon import GROUP_OPTIONS, Group, Muon

__all__ = ["LowMemoryAdamW"]

_MOMENTS = ("state1", "state2")


class LowMemoryAdamW(Muon, AdamW):  # type: ignore[misc]
    """Muon for groups with `"muon": True`, and AdamW with small or paged moments for all others.

    Args:
        groups: As for `MuonAdamW`.
        **options: As for the `AdamW` of bitsandbytes.
    """

    def __init__(self, groups: Iterable[Group], **options: Any) -> None:
        super().__init__(groups, **options)
        for group in self.param_groups:
            for name, value in GROUP_OPTIONS.items():
                group.setdefault(name, value)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Take one step with all parameters that have a gradient."""
        groups = self.param_groups
        self.param_groups = [group for group in groups if not group["muon"]]
        try:
            loss = super().step(closure)
        finally:
            self.param_groups = groups
        for group in groups:
            if group["muon"]:
                self._muon_step(group)
        return loss

    def load_state_dict(self, state_dict: dict[str, Any], move_to_device: bool = True) -> None:
        """Load a state to the devices of the parameters; put moments into pages, which bitsandbytes does not do."""
        AdamW.load_state_dict(self, state_dict, move_to_device=False)
        for parameter, values in self.state.items():
            for name, value in values.items():
                if name in _MOMENTS:
                    values[name] = self.get_state_buffer(parameter, value.dtype).copy_(value)
                elif isinstance(value, torch.Tensor):
                    values[name] = value.to(parameter.device)
