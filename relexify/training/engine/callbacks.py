"""What happens beside training: measuring, saving, telling of steps."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback

from relexify.pretrained.architecture import Architecture
from relexify.scoring import HeldOut

__all__ = ["Schedule", "Watch"]

LEAST_SECONDS_BETWEEN_CHECKPOINTS = 15
CHECKPOINT_SHARE = 0.03
"""How much of the time checkpoints may take, where nobody says how often they are wanted."""


@dataclass(frozen=True)
class Watch:
    """What happens beside training.

    Attributes:
        held_out: Text to measure on, by language; of a model with one language, by None.
        kind: Of the model.
        measured: Steps to measure after, beside the regular ones.
        save_every: Steps between two checkpoints; by the clock if not given.
        on_step: Told about every finished step.
    """

    held_out: Mapping[str | None, HeldOut]
    kind: Architecture
    measured: frozenset[int]
    save_every: int | None
    on_step: Callable[[int], None]


class Schedule(TrainerCallback):  # type: ignore[misc]
    """Measures where asked, saves now and then, tells of every step, and keeps the time."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.saved, self.cost = time.monotonic(), 0.0

    def on_train_begin(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        """Find the best checkpoint where it lies now, and spare a walk through all modules in every step."""
        best = Path(args.output_dir) / f"checkpoint-{state.best_global_step}"
        if best.exists():  # the folder may have been moved since the checkpoint was written
            state.best_model_checkpoint = str(best)
        model = rest["model"]
        model.train()
        if args.world_size == 1:  # the same without a walk through all modules
            trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
            vars(model)["zero_grad"] = lambda set_to_none=True: _forget_gradients(trained)

    def on_step_end(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        """Tell of the step; measure and save where that is due."""
        self.watch.on_step(state.global_step)
        if state.global_step in self.watch.measured or state.global_step >= state.max_steps:
            control.should_evaluate = True
        # After the last step the result itself is written.
        control.should_save = state.global_step < state.max_steps and self._due(state.global_step, args.world_size)
        control.should_log = control.should_log or control.should_evaluate or control.should_save
        self.began = time.monotonic()

    def on_save(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        """Keep the time that saving took."""
        self.saved = time.monotonic()
        self.cost = self.saved - self.began

    def _due(self, step: int, devices: int) -> bool:
        if self.watch.save_every is not None:
            return step % self.watch.save_every == 0
        # Several processes have several clocks, and must save together: they are given `save_every`.
        wait = max(LEAST_SECONDS_BETWEEN_CHECKPOINTS, self.cost / CHECKPOINT_SHARE)
        return devices == 1 and time.monotonic() - self.saved > wait


def _forget_gradients(parameters: list[torch.Tensor]) -> None:
    for parameter in parameters:
        parameter.grad = None
