"""The Trainer for a task: development scores of our own, and sealed checkpoints after every epoch."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import TrainingArguments

from relexify.errors import OutputError, first_line
from relexify.evaluation.epoch_trainer import EpochTrainer, Steps, epoch_arguments
from relexify.evaluation.options import FineTuning
from relexify.progress import Advance
from relexify.storage.checkpoints import drop_checkpoint, seal, sealed_checkpoints

__all__ = ["DEV", "TaskTrainer", "task_arguments"]

DEV = "eval_score"


class TaskTrainer(EpochTrainer):
    """Trains an encoder on a task; `dev_score`, where there is development data, chooses the epoch."""

    def __init__(
        self,
        model: Any,
        arguments: TrainingArguments,
        rows: list[dict[str, Any]],
        collate: Callable[..., dict[str, torch.Tensor]],
        dev_score: Callable[[], float] | None,
        advance: Advance,
    ) -> None:
        super().__init__(
            measures=dev_score is not None,
            model=model,
            args=arguments,
            train_dataset=rows,
            data_collator=collate,
            callbacks=[Steps(advance)],
        )
        self.dev_score = dev_score

    def measure(self) -> dict[str, float]:
        """Measure on development data."""
        assert self.dev_score is not None
        return {DEV: self.dev_score()}

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        """Write, then seal; drop older ones only after that."""
        folder = Path(self.args.output_dir)
        checkpoint = folder / f"checkpoint-{self.state.global_step}"
        try:
            super()._save_checkpoint(model, trial)
            (checkpoint / "training_args.bin").unlink(missing_ok=True)  # a pickle, and of no use here
            seal(checkpoint)
        except (OSError, SafetensorError, RuntimeError, OutputError) as error:
            shutil.rmtree(checkpoint, ignore_errors=True)
            reason = getattr(error, "strerror", None) or first_line(error)
            raise OutputError(f"{checkpoint} could not be written ({reason}): make room, and start again") from error
        best = f"checkpoint-{self.state.best_global_step}"
        for old in sealed_checkpoints(folder)[:-1]:
            if old.name != best:
                drop_checkpoint(old)


def task_arguments(options: FineTuning, folder: Path, seed: int, steps: int, *, choose: bool) -> TrainingArguments:
    """What the Trainer is told.

    Args:
        options: How.
        folder: For checkpoints.
        seed: Of the order of the data and of dropout.
        steps: Of the whole training.
        choose: Whether there is development data to choose the best epoch by.
    """
    size = options.micro_batch or options.batch
    return epoch_arguments(
        folder,
        precision=options.precision,
        best_by=DEV if choose else None,
        num_train_epochs=options.epochs,
        per_device_train_batch_size=size,
        gradient_accumulation_steps=options.batch // size,
        learning_rate=options.learning_rate,
        warmup_steps=round(options.warmup * steps),
        weight_decay=options.weight_decay,
        adam_beta1=options.beta1,
        adam_beta2=options.beta2,
        adam_epsilon=options.epsilon,
        max_grad_norm=options.clip,
        optim="adamw_torch_fused" if torch.cuda.is_available() else "adamw_torch",
        seed=seed,
        data_seed=seed,
    )
