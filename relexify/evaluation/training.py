"""Train a model for a task: one Trainer for fine-tuning and parsing, scored after every epoch, and resumable.

The folder of a task belongs to one model, one set of data and one set of options (`storage/runs/claims.py`). It holds
the results of finished seeds, and the sealed checkpoints of an unfinished seed.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import nn
from transformers import (
    EarlyStoppingCallback,
    PreTrainedModel,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
    set_seed,
)

from relexify.errors import InputError, TrainingError
from relexify.evaluation.options import EpochTraining
from relexify.pretrained.architecture import IGNORED
from relexify.pretrained.runtime.precision import computes_in_bfloat16
from relexify.pretrained.runtime.quiet import quiet_transformers
from relexify.progress import Advance, track
from relexify.storage.runs.checkpoints import find_checkpoint, remove_unsealed, resuming_from
from relexify.training.engine.randomness import isolated_randomness
from relexify.training.engine.sealed import SealedTrainer

__all__ = ["DEV_SCORE", "by_content", "epoch_arguments", "seeded_run", "train_epochs"]

DEV_SCORE = "eval_score"
"""The name of the score on development data in the Trainer's metrics."""

logger = logging.getLogger(__name__)


def by_content(model: str | Path | None) -> Path | str | None:
    """Return a folder as a `Path`, so that `fingerprint` hashes its files; return a Hub name unchanged."""
    return Path(model) if model is not None and Path(model).is_dir() else model


@contextmanager
def seeded_run(title: str, seed: int, steps: int, *, memory_advice: str) -> Iterator[Advance]:
    """Set all random seeds for one run, and restore the caller's random state afterwards.

    Args:
        title: The title of the progress bar.
        seed: Random seed of new layers, of the order of the data, and of dropout.
        steps: Number of steps of the whole run.
        memory_advice: What to do if the GPU is out of memory.

    Raises:
        TrainingError: The GPU is out of memory.
    """
    with isolated_randomness(), track(title, steps) as advance:
        set_seed(seed)
        try:
            yield advance
        except torch.OutOfMemoryError as error:
            raise TrainingError(f"the GPU is out of memory: {memory_advice}") from error


def train_epochs(
    model: PreTrainedModel,
    rows: Sequence[Any],
    collate: Callable[[Sequence[Any]], dict[str, torch.Tensor]],
    arguments: TrainingArguments,
    *,
    advance: Advance,
    score: Callable[[], float] | None = None,
    optimiser: torch.optim.Optimizer | None = None,
    patience: int | None = None,
) -> TrainerState:
    """Train a model in place, from the last intact checkpoint if there is one.

    Args:
        model: The model. At the end, it has the parameters of the best epoch if there is a score, else of the last.
        rows: The training data.
        collate: Converts rows to a batch.
        arguments: The result of `epoch_arguments`; checkpoints are written to their output folder.
        advance: Called with the number of newly finished steps.
        score: Scores the model on development data, after every epoch.
        optimiser: The optimiser to use instead of the one in the arguments.
        patience: Stop after this many epochs without improvement; None to run all epochs.

    Returns:
        The state of the Trainer, with the best step and all scores.

    Raises:
        OutputError: A checkpoint cannot be written.
    """
    folder = Path(arguments.output_dir)
    remove_unsealed(folder)
    try:
        checkpoint = find_checkpoint(folder)
    except InputError as error:
        logger.warning("%s; starting again", str(error).partition(":")[0])
        shutil.rmtree(folder, ignore_errors=True)
        checkpoint = None
    trainer = EpochTrainer(
        score=score,
        model=model,
        args=arguments,
        train_dataset=rows,
        data_collator=collate,
        optimizers=(optimiser, None),
        callbacks=[*([] if patience is None else [EarlyStoppingCallback(patience)]), _Steps(advance)],
    )
    with quiet_transformers(), resuming_from(checkpoint):
        trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))
    return trainer.state


def epoch_arguments(
    options: EpochTraining,
    folder: Path,
    *,
    seed: int,
    steps: int,
    is_scored: bool,
    micro_batch: int | None = None,
    restores_callbacks: bool = False,
) -> TrainingArguments:
    """Return the Trainer's arguments: a linear schedule, and a checkpoint after every epoch.

    Args:
        options: Options of the training.
        folder: The folder for checkpoints.
        seed: Random seed of the order of the data, and of dropout.
        steps: Number of steps of the whole training.
        is_scored: Whether there is a score to choose the best epoch; otherwise, the last epoch is kept.
        micro_batch: Number of examples per forward pass; if None, the whole batch.
        restores_callbacks: Whether a resumed run needs the state of callbacks, such as the remaining patience.
    """
    on_gpu = torch.cuda.is_available()
    size = micro_batch or options.batch
    arguments = TrainingArguments(
        output_dir=str(folder),
        num_train_epochs=options.epochs,
        per_device_train_batch_size=size,
        gradient_accumulation_steps=options.batch // size,
        learning_rate=options.learning_rate,
        lr_scheduler_type="linear",
        warmup_steps=round(options.warmup * steps),
        weight_decay=options.weight_decay,
        adam_beta1=options.beta1,
        adam_beta2=options.beta2,
        adam_epsilon=options.epsilon,
        max_grad_norm=options.clip,
        optim="adamw_torch_fused" if on_gpu else "adamw_torch",
        bf16=computes_in_bfloat16(options.precision),
        use_cpu=not on_gpu,
        eval_strategy="epoch" if is_scored else "no",
        save_strategy="epoch",
        logging_strategy="no",
        load_best_model_at_end=is_scored,
        metric_for_best_model=DEV_SCORE if is_scored else None,
        greater_is_better=True,
        restore_callback_states_from_checkpoint=restores_callbacks,
        remove_unused_columns=False,
        disable_tqdm=True,
        report_to=[],
        dataloader_pin_memory=on_gpu,
        seed=seed,
        data_seed=seed,
    )
    if arguments.n_gpu > 1:
        arguments._n_gpu = 1  # the Trainer would multiply the batch by the number of GPUs
    return arguments


class EpochTrainer(SealedTrainer):
    """A Trainer that scores the model with a function, and weights the parts of a batch by their number of labels."""

    overridden: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **SealedTrainer.overridden,
        "get_batch_samples": ("epoch_iterator", "num_batches", "device"),
        "compute_loss": ("model", "inputs", "return_outputs", "num_items_in_batch"),
    }

    def __init__(self, *, score: Callable[[], float] | None, **rest: Any) -> None:
        # The Trainer requires a data set for evaluation, but `evaluate` does not read it.
        super().__init__(eval_dataset=None if score is None else [None], **rest)
        self.score = score
        # If `forward` takes any keyword, the Trainer expects the model to divide its loss by the number of labels in
        # the whole batch. Classifiers accept this number, but ignore it.
        self.model_accepts_loss_kwargs = False
        self._mean_labels: float | None = None  # mean number of labels of a batch's parts; None for a single part

    def get_batch_samples(
        self, epoch_iterator: Iterator[Any], num_batches: int, device: torch.device
    ) -> tuple[list[Any], Any]:
        """Return the parts of a batch, and count their labels."""
        parts, number = super().get_batch_samples(epoch_iterator, num_batches, device)
        self._mean_labels = sum(map(_count_labels, parts)) / len(parts) if len(parts) > 1 else None
        return parts, number

    def compute_loss(
        self, model: nn.Module, inputs: dict[str, torch.Tensor], return_outputs: bool = False, **rest: Any
    ) -> Any:
        """Return the loss of a part of a batch, weighted by its labels; the Trainer takes the mean over the parts."""
        # mean over parts of loss · labels / mean_labels = Σ (loss · labels) / Σ labels, the loss of the whole batch
        loss = super().compute_loss(model, inputs)
        return loss if self._mean_labels is None else loss * (_count_labels(inputs) / self._mean_labels)

    def evaluate(
        self, eval_dataset: object = None, ignore_keys: object = None, metric_key_prefix: str = "eval"
    ) -> dict[str, float]:
        """Score the model and inform the callbacks."""
        try:
            metrics = {} if self.score is None else {DEV_SCORE: self.score()}
        except TrainingError as error:
            raise TrainingError(f"at step {self.state.global_step} of training, {error}") from error
        return self._finish_evaluation(metrics)


def _count_labels(inputs: Mapping[str, torch.Tensor]) -> int:
    """Return the number of labels: the number of labelled words if words are tagged, else the number of examples."""
    labels = inputs.get("labels")
    if labels is not None and labels.ndim == 2:
        return int((labels != IGNORED).sum())
    return len(next(iter(inputs.values())))


class _Steps(TrainerCallback):  # type: ignore[misc]
    """Reports every step."""

    def __init__(self, advance: Advance) -> None:
        self.advance = advance
        self.reported = 0

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **rest: Any
    ) -> None:
        """Report the steps that a resumed run has already done."""
        self.on_step_end(args, state, control)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **rest: Any) -> None:
        """Report the finished step."""
        self.advance(state.global_step - self.reported)
        self.reported = state.global_step
