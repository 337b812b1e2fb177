"""What all trainings of this room share: a Trainer that measures with scores of our own after every epoch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import PrinterCallback, Trainer, TrainerCallback, TrainingArguments

from relexify.pretrained.precision import computes_in_bfloat16
from relexify.progress import Advance

__all__ = ["EpochTrainer", "Steps", "epoch_arguments"]


class EpochTrainer(Trainer):  # type: ignore[misc]
    """transformers' Trainer, silent, and with `measure` in place of its evaluation."""

    def __init__(self, *, measures: bool, **rest: Any) -> None:
        super().__init__(eval_dataset=[None] if measures else None, **rest)  # asked for, never read: see `evaluate`
        self.remove_callback(PrinterCallback)

    def measure(self) -> dict[str, float]:
        """What the model scores now, under the names that the arguments choose the best epoch by."""
        raise NotImplementedError

    def evaluate(
        self, eval_dataset: Any = None, ignore_keys: Any = None, metric_key_prefix: str = "eval"
    ) -> dict[str, float]:
        """Measure, and tell the callbacks."""
        metrics = self.measure()
        self.log(metrics)
        self.control: Any = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics


class Steps(TrainerCallback):  # type: ignore[misc]
    """Tells of every step, and finds the best checkpoint again where the folder was moved."""

    def __init__(self, advance: Advance) -> None:
        self.advance, self.done = advance, 0

    def on_train_begin(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        """A run that goes on begins with the steps it has done."""
        best = Path(args.output_dir) / f"checkpoint-{state.best_global_step}"
        if best.exists():
            state.best_model_checkpoint = str(best)
        self._tell(state.global_step)

    def on_step_end(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        """One more."""
        self._tell(state.global_step)

    def _tell(self, step: int) -> None:
        self.advance(step - self.done)
        self.done = step


def epoch_arguments(folder: str | Path, *, precision: str, best_by: str | None, **own: Any) -> TrainingArguments:
    """What the Trainer is told: save after every epoch, and a rate that falls to zero in a straight line.

    Args:
        folder: For checkpoints.
        precision: One of `PRECISIONS`.
        best_by: The score that the best epoch is chosen by, after every one; the last epoch is kept if not given.
        own: What a training has of its own: sizes, rates, seeds.
    """
    on_gpu = torch.cuda.is_available()
    arguments = TrainingArguments(
        output_dir=str(folder),
        lr_scheduler_type="linear",
        bf16=computes_in_bfloat16(precision),
        use_cpu=not on_gpu,
        eval_strategy="no" if best_by is None else "epoch",
        save_strategy="epoch",
        logging_strategy="no",
        load_best_model_at_end=best_by is not None,
        metric_for_best_model=best_by,
        greater_is_better=True,
        remove_unused_columns=False,
        disable_tqdm=True,
        report_to=[],
        dataloader_pin_memory=on_gpu,
        **own,
    )
    if arguments.n_gpu > 1:
        arguments._n_gpu = 1  # or every GPU takes a batch of its own
    return arguments
