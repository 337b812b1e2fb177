"""A Trainer whose checkpoints are sealed: what the Trainers of stages and of tasks have in common."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import transformers
from torch import nn
from transformers import PrinterCallback, Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from relexify.errors import TrainingError
from relexify.storage.runs.checkpoints import write_checkpoint

__all__ = ["SealedTrainer"]


class SealedTrainer(Trainer):  # type: ignore[misc]
    """Trains without output, seals checkpoints before it removes older ones, and saves nothing out of patience.

    Attributes:
        overridden: The methods that a class overrides, with the parameters that it relies on.
        checkpoints_kept: How many of the newest checkpoints are kept, besides the best one.

    Raises:
        TrainingError: The installed version of transformers lacks a method that is overridden.
    """

    overridden: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "evaluate": ("eval_dataset", "ignore_keys", "metric_key_prefix"),
        "_save_checkpoint": ("model", "trial"),
    }
    checkpoints_kept: ClassVar[int] = 1

    def __init__(self, *, callbacks: list[TrainerCallback], **rest: Any) -> None:
        _check_methods(self.overridden)
        super().__init__(callbacks=[_MovedFolder(), *callbacks], **rest)
        self.remove_callback(PrinterCallback)

    def _finish_evaluation(self, metrics: dict[str, float]) -> dict[str, float]:
        """Log the scores of `evaluate`, pass them to the callbacks, and return them."""
        self.log(metrics)
        self.control: Any = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics

    def _save_checkpoint(self, model: nn.Module, trial: object) -> None:
        """Write and seal a checkpoint, and only then remove older ones."""
        if self.control.should_training_stop and self.state.global_step < self.state.max_steps:
            return  # patience has ended the training: a run that resumed from this checkpoint would train on
        write_checkpoint(
            Path(self.args.output_dir),
            self.state.global_step,
            lambda: self._write_checkpoint(model, trial),
            keep=self.checkpoints_kept,
            best=self.state.best_global_step,
            advice=self._advice(),
            is_main=self.args.should_save,
        )

    def _write_checkpoint(self, model: nn.Module, trial: object) -> None:
        """Write the files of a checkpoint; all processes call this together."""
        super()._save_checkpoint(model, trial)

    def _advice(self) -> str:
        """Return what to do if a checkpoint cannot be written."""
        return "free some space and try again"


class _MovedFolder(TrainerCallback):  # type: ignore[misc]
    """Finds the best checkpoint again if its folder was moved since the run was interrupted."""

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **rest: Any
    ) -> None:
        """Replace the path of the best checkpoint, which is absolute and of the first run."""
        best = Path(args.output_dir) / f"checkpoint-{state.best_global_step}"
        if best.exists():
            state.best_model_checkpoint = str(best)


def _check_methods(overridden: Mapping[str, tuple[str, ...]]) -> None:
    """Make sure that the Trainer has the methods that are overridden, with the same parameters.

    Raises:
        TrainingError: It has not.
    """
    for name, expected in overridden.items():
        method = getattr(Trainer, name, None)
        found = () if method is None else tuple(inspect.signature(method).parameters)
        if method is None or not set(expected) <= set(found):
            raise TrainingError(
                f"transformers {transformers.__version__} has no Trainer.{name}({', '.join(expected)}), on which "
                "relexify's training relies: install a version that has it, such as 5.22"
            )
