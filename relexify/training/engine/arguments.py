"""What the Trainer is told about a stage: sizes, schedule, precision, when to measure, when to save."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from transformers import EarlyStoppingCallback, Trainer, TrainingArguments

from relexify.errors import InputError, MissingExtra
from relexify.pretrained.precision import computes_in_bfloat16
from relexify.training.engine.lookahead import LookaheadAdamW
from relexify.training.engine.trainer import BITS
from relexify.training.plan import LOOKAHEAD, Stage, Training

__all__ = ["compiles", "measured_steps", "save_every", "stage_arguments", "stage_callbacks", "stage_optimiser"]

COMPILING_PAYS_FROM = 100
LONG_WAIT = 24 * 3600
MEASURED_TOKENS = 8_192


def stage_arguments(stage: Stage, training: Training, folder: Path, *, select: bool) -> TrainingArguments:
    """What the Trainer is told.

    Args:
        stage: What is trained, and how long.
        training: Everything else.
        folder: For checkpoints.
        select: Whether the best measured model is wanted at the end.

    Raises:
        InputError: The batch cannot be cut as asked.
    """
    every = training.evaluate_every or max(1, training.steps // 20)
    on_gpu = torch.cuda.is_available()
    arguments = TrainingArguments(
        output_dir=str(folder),
        max_steps=stage.steps,
        learning_rate=stage.learning_rate,
        lr_scheduler_type=stage.schedule if stage.schedule != "constant" else "constant_with_warmup",
        warmup_steps=stage.warmup_steps,
        weight_decay=training.weight_decay,
        adam_beta1=training.beta1,
        adam_beta2=training.beta2,
        adam_epsilon=training.epsilon,
        max_grad_norm=training.clip,
        optim="adamw_torch_fused",
        bf16=computes_in_bfloat16(training.precision),
        use_cpu=not on_gpu,
        eval_strategy="steps",
        eval_steps=stage.steps + 1,  # when to measure and save is for the schedule of the whole run to say
        logging_strategy="steps",
        logging_steps=max(1, min(every, 50)),
        logging_nan_inf_filter=False,  # it waits for the device after every step; see StageTrainer._check_finite
        save_strategy="steps",  # when exactly: see trainer._Schedule
        save_steps=stage.steps + 1,
        load_best_model_at_end=select,
        metric_for_best_model=BITS,
        greater_is_better=False,
        restore_callback_states_from_checkpoint=True,  # patience goes on where it was
        remove_unused_columns=False,
        disable_tqdm=True,
        report_to=[],
        dataloader_pin_memory=on_gpu,
        accelerator_config={"non_blocking": on_gpu},  # or every batch waits until the GPU has done all before it
        ddp_timeout=LONG_WAIT,
        ddp_find_unused_parameters=False,
        seed=training.seed,
    )
    devices = arguments.world_size
    size = training.micro_batch or max(1, training.batch // devices)
    if training.batch % (size * devices):
        raise InputError(
            f"a batch of {training.batch} cannot be cut into parts of {size} on each of {devices} devices: "
            "give a batch that is a multiple of both, or another micro_batch"
        )
    return _with_sizes(arguments, size, training.batch // (size * devices), training.length)


def stage_optimiser(
    stage: Stage, training: Training, arguments: TrainingArguments
) -> tuple[Any, dict[str, Any]] | None:
    """The class and options of an optimiser that the Trainer does not have; None for its own."""
    if stage.optimiser != LOOKAHEAD:
        return None
    _, options = Trainer.get_optimizer_cls_and_kwargs(arguments)
    return LookaheadAdamW, {**options, "ahead": training.lookahead_steps, "alpha": training.lookahead_alpha}


def _with_sizes(arguments: TrainingArguments, size: int, parts: int, length: int) -> TrainingArguments:
    """The same arguments for batches cut into so many parts of so many sequences."""
    arguments.per_device_train_batch_size = size
    # Without gradients there is room for more.
    arguments.per_device_eval_batch_size = max(size, MEASURED_TOKENS // length)
    arguments.gradient_accumulation_steps = parts
    return arguments


def compiles(training: Training, stage: Stage, arguments: TrainingArguments) -> bool:
    """Whether the layers are compiled: where asked, else on a GPU where the stage is long enough to pay for it."""
    if training.compile is not None:
        return training.compile
    return arguments.device.type == "cuda" and stage.steps >= COMPILING_PAYS_FROM


def save_every(training: Training) -> int | None:
    """Steps between two checkpoints; None leaves it to the clock, which several processes do not share."""
    if training.save_every is None and PartialState().num_processes > 1:
        return training.evaluate_every or max(1, training.steps // 20)
    return training.save_every


def measured_steps(training: Training, stage: Stage, first_step: int) -> frozenset[int]:
    """The steps of this stage that are measured because of the run: a tenth of it, and every so many of its steps."""
    every = training.evaluate_every or max(1, training.steps // 20)
    wanted = {round(training.steps / 10), *range(every, training.steps + 1, every)}
    return frozenset(step - first_step for step in wanted if 0 < step - first_step <= stage.steps)


def stage_callbacks(training: Training, folder: Path, is_last: bool) -> list[Any]:
    """Patience, in the last stage, and the log for TensorBoard, in one of the processes."""
    found: list[Any] = []
    if training.patience is not None and is_last:
        found.append(EarlyStoppingCallback(training.patience))
    if training.tensorboard is not False and PartialState().is_main_process:
        try:
            from torch.utils.tensorboard import SummaryWriter
            from transformers.integrations import TensorBoardCallback
        except ImportError as error:
            if training.tensorboard:
                raise MissingExtra("tensorboard", "writing a log for TensorBoard", "tensorboard") from error
        else:
            found.append(TensorBoardCallback(SummaryWriter(str(folder / "logs"))))
    return found
