"""Lookahead around Adam: k steps forward, one step back (Zhang et al., 2019).

The slow weights φ stay the same while Adam takes k steps with the fast weights θ; then

    φ ← φ + α (θ − φ),    θ ← φ

The slow weights are part of the optimiser state, so that checkpoints contain them. They take the memory of one more
copy of the trained parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.optim import AdamW
from torch.optim.optimizer import ParamsT

__all__ = ["LookaheadAdamW"]

_SLOW, _TAKEN = "slow", "steps_taken"


class LookaheadAdamW(AdamW):
    """AdamW with slow weights.

    Args:
        parameters: As for `AdamW`.
        ahead: k, the steps of Adam between two of the slow weights.
        alpha: α, how far the slow weights move towards the fast ones.
        **options: As for `AdamW`.
    """

    def __init__(self, parameters: ParamsT, *, ahead: int = 5, alpha: float = 0.5, **options: Any) -> None:
        super().__init__(parameters, **options)
        self.ahead, self.alpha = ahead, alpha
        for group in self.param_groups:
            group.setdefault(_TAKEN, 0)  # in the group, because reading a tensor would wait for the device

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Take a step of Adam, and after every k-th also one of the slow weights."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        trained = [(group, each) for group in self.param_groups for each in group["params"] if each.grad is not None]
        # Adam initialises the state of a parameter only if it is empty, so ours is added after its step.
        initial = {each: each.detach().clone() for _, each in trained if each not in self.state}
        super().step()
        for parameter, slow in initial.items():
            self.state[parameter][_SLOW] = slow
        for group in self.param_groups:
            group[_TAKEN] += 1
        for group, parameter in trained:
            if group[_TAKEN] % self.ahead == 0:
                slow = self.state[parameter][_SLOW]
                slow.lerp_(parameter, self.alpha)
                parameter.copy_(slow)
        return loss
