"""A moving average of the weights, which is scored and kept instead of the weights themselves.

    average ← dᵏ average + (1 − dᵏ) weights,    d = min(decay, (1 + step) / (10 + step))

after every k-th step. d is smaller in the first steps, so that the average does not remain at the start; after the
first one, the average is the weights. k is a fifth of the steps that the average is over, 1 / (1 − decay): consecutive
weights differ little, and every update reads and writes the whole model. The averages are part of the optimiser state,
so that checkpoints contain them. A checkpoint has the averages as its model, because the best checkpoint may become the
result, and the weights in their place in the optimiser state.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

__all__ = ["WeightAverage", "averaged_weights", "keep_averages", "swap_averages", "update_interval"]

_AVERAGE = "average"
_UPDATES = 5
"""Updates of an average in as many steps as it is over."""


def update_interval(decay: float) -> int:
    """Return the number of steps between two updates of an average."""
    return max(1, round(1 / (1 - decay) / _UPDATES))


class WeightAverage(TrainerCallback):  # type: ignore[misc]
    """Updates the averages after every few steps.

    Args:
        decay: The share of the old average in the new one, for each step after the first ones.
    """

    def __init__(self, decay: float) -> None:
        self.decay = decay
        self.interval = update_interval(decay)

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **rest: Any
    ) -> None:
        """Put the weights back into the model if it was loaded from a checkpoint."""
        swap_averages(rest["optimizer"])

    @torch.no_grad()
    def on_optimizer_step(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **rest: Any
    ) -> None:
        """Move the averages towards the weights."""
        if state.global_step % self.interval:
            return
        decay = min(self.decay, (1 + state.global_step) / (10 + state.global_step)) ** self.interval
        if state.global_step == 0:  # other callbacks have changed the weights since the averages were created
            decay = 0.0
        states = rest["optimizer"].state
        averages = [values[_AVERAGE] for values in states.values()]
        torch._foreach_lerp_(averages, [parameter.detach() for parameter in states], 1 - decay)


def keep_averages(optimiser: torch.optim.Optimizer) -> None:
    """Let the first step of an optimiser, which creates its state, create the averages too.

    torch loads a distributed optimiser state into what a first step creates, so nothing may be added after the step.
    """

    def create(optimiser: torch.optim.Optimizer, *_: Any) -> None:
        for parameter, values in optimiser.state.items():
            if _AVERAGE not in values:
                values[_AVERAGE] = parameter.detach().clone()

    optimiser.register_step_post_hook(create)


@torch.no_grad()
def swap_averages(optimiser: torch.optim.Optimizer) -> None:
    """Exchange weights and averages; nothing happens before the first step."""
    for parameter, values in optimiser.state.items():
        if _AVERAGE in values:
            weights = parameter.detach().clone()
            parameter.copy_(values[_AVERAGE])
            values[_AVERAGE].copy_(weights)


@contextmanager
def averaged_weights(optimiser: torch.optim.Optimizer) -> Iterator[None]:
    """Put the averages into the model for a while."""
    swap_averages(optimiser)
    try:
        yield
    finally:
        swap_averages(optimiser)
