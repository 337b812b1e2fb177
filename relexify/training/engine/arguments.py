"""Settings of the Trainer for a stage: sizes, schedule, precision, optimiser, when to score and when to save."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from accelerate.utils import parse_flag_from_env
from transformers import EarlyStoppingCallback, PreTrainedModel, Trainer, TrainerCallback, TrainingArguments
from transformers.integrations import get_reporting_integration_callbacks, is_tensorboard_available

from relexify.errors import InputError
from relexify.pretrained.runtime.precision import computes_in_bfloat16
from relexify.training.distributed import DISTRIBUTED_TIMEOUT
from relexify.training.engine.monitor import BITS
from relexify.training.engine.optimisers.average import WeightAverage
from relexify.training.engine.optimisers.groups import parameter_groups
from relexify.training.engine.optimisers.lookahead import LookaheadAdamW
from relexify.training.engine.optimisers.muon import MuonAdamW
from relexify.training.options import ADAM, FULL_STATE, LOOKAHEAD, MUON, PAPERS_BETA1, Reporter, Stage, Training
from relexify.training.rates import stage_rates

__all__ = [
    "compiles",
    "evaluated_steps",
    "save_interval",
    "stage_arguments",
    "stage_callbacks",
    "stage_optimiser",
]

COMPILING_PAYS_FROM = 100
"""Fewest steps of a stage in which compilation, about a minute, pays on a GPU."""
SCORED_TOKENS = 8_192
"""Tokens that a device scores at once; without gradients there is memory for more than in training."""


def stage_arguments(stage: Stage, training: Training, folder: Path) -> TrainingArguments:
    """Return the arguments of the Trainer.

    Args:
        stage: What is trained, and for how long.
        training: All other options.
        folder: For checkpoints.

    Raises:
        InputError: The batch cannot be divided as requested.
    """
    on_gpu = torch.cuda.is_available()
    schedule, schedule_options = _schedule_arguments(stage)
    arguments = _StageArguments(
        output_dir=str(folder),
        max_steps=stage.steps,
        learning_rate=stage.learning_rate,
        lr_scheduler_type=schedule,
        lr_scheduler_kwargs=schedule_options,
        warmup_steps=stage.warmup_steps,
        weight_decay=training.weight_decay,
        adam_beta1=PAPERS_BETA1 if training.beta1 is None else training.beta1,
        adam_beta2=training.beta2,
        adam_epsilon=training.epsilon,
        max_grad_norm=training.clip,
        optim="adamw_torch_fused",
        bf16=computes_in_bfloat16(training.precision) or training.inner_precision == "bfloat16",
        gradient_checkpointing=training.checkpoint_activations,
        gradient_checkpointing_kwargs={"use_reentrant": False},  # reentrant checkpointing needs inputs with gradients
        use_cpu=not on_gpu,
        # StageMonitor decides when to score and to save, so these intervals are longer than the stage.
        eval_strategy="steps",
        eval_steps=stage.steps + 1,
        save_strategy="steps",
        save_steps=stage.steps + 1,
        logging_strategy="steps",
        logging_steps=max(1, min(training.evaluation_interval, 50)),
        logging_nan_inf_filter=False,  # it would wait for the device after every step; see StageTrainer._check_finite
        load_best_model_at_end=training.selects_best,
        metric_for_best_model=BITS,
        greater_is_better=False,
        restore_callback_states_from_checkpoint=True,  # EarlyStoppingCallback counts on after an interruption
        remove_unused_columns=False,
        disable_tqdm=True,
        report_to=[],
        dataloader_pin_memory=on_gpu,
        accelerator_config={
            "non_blocking": on_gpu,  # otherwise, each batch waits until the GPU has finished the one before
            # Otherwise, FSDP keeps all gradients of the model on every GPU while they are summed over micro-batches.
            "gradient_accumulation_kwargs": {"sync_each_batch": parse_flag_from_env("ACCELERATE_USE_FSDP")},
        },
        ddp_timeout=DISTRIBUTED_TIMEOUT,
        ddp_find_unused_parameters=False,
        seed=training.seed,
    )
    devices = arguments.world_size
    size = training.micro_batch or max(1, training.batch // devices)
    if training.batch % (size * devices):
        raise InputError(
            f"a batch of {training.batch} cannot be cut into parts of {size} on each of {devices} devices: "
            "give a batch that is a multiple of both, or another `micro_batch`"
        )
    arguments.per_device_train_batch_size = size
    arguments.per_device_eval_batch_size = max(size, SCORED_TOKENS // training.length)
    arguments.gradient_accumulation_steps = training.batch // (size * devices)
    return arguments


def stage_optimiser(
    model: PreTrainedModel, stage: Stage, training: Training, arguments: TrainingArguments
) -> tuple[type[torch.optim.Optimizer], dict[str, Any]] | None:
    """Return class and options of an optimiser that the Trainer does not have; None for its own.

    Args:
        model: The model, whose parameters that are not trained are frozen.
        stage: The stage, with learning rates.
        training: All other options.
        arguments: As `stage_arguments` returns them.
    """
    has_groups = stage.optimiser == MUON or stage.embedding_learning_rate is not None
    state = training.optimiser_state
    if stage.optimiser == ADAM and not has_groups and state == FULL_STATE:
        return None
    _, options = Trainer.get_optimizer_cls_and_kwargs(arguments)
    if stage.optimiser == LOOKAHEAD:
        return LookaheadAdamW, {**options, "ahead": training.lookahead_steps, "alpha": training.lookahead_alpha}
    common = {name: options[name] for name in ("lr", "betas", "eps")}
    if has_groups:
        muon = stage.optimiser == MUON
        common["params"] = parameter_groups(model, stage_rates(stage), training.weight_decay, muon=muon)
    if state == FULL_STATE:
        return MuonAdamW, common
    from relexify.training.engine.optimisers.low_memory import LowMemoryAdamW

    return LowMemoryAdamW, {**common, "optim_bits": 8 if "8-bit" in state else 32, "is_paged": "paged" in state}


def compiles(training: Training, stage: Stage, arguments: TrainingArguments) -> bool:
    """Whether the layers are compiled: as requested, or else on a GPU if the stage is long enough to pay for it."""
    if training.compile is not None:
        return training.compile
    return arguments.device.type == "cuda" and stage.steps >= COMPILING_PAYS_FROM


def save_interval(training: Training) -> int | None:
    """Return the steps between two checkpoints; None leaves it to the clock, which several processes do not share."""
    if training.save_every is None and PartialState().num_processes > 1:
        return training.evaluation_interval
    return training.save_every


def evaluated_steps(training: Training, stage: Stage, steps_before: int) -> frozenset[int]:
    """Return the steps of a stage after which it is scored: regular steps of the run, its tenth, and snapshots."""
    every = training.evaluation_interval
    of_run = {*range(every, training.steps + 1, every), *training.snapshots}
    # A tenth of the run is scored too, unless the run has ten steps or fewer, or is scored at its ends only.
    if every < training.steps and (training.evaluate_every or training.steps > 10):
        of_run.add(round(training.steps / 10))
    return frozenset(step - steps_before for step in of_run if 0 < step - steps_before <= stage.steps)


def stage_callbacks(training: Training, folder: Path, is_last: bool) -> list[TrainerCallback]:
    """Return callbacks for averages, patience (in the last stage) and reports (in the main process)."""
    callbacks: list[TrainerCallback] = []
    if training.average:
        callbacks.append(WeightAverage(training.average))
    if training.patience is not None and is_last:
        callbacks.append(EarlyStoppingCallback(training.patience))
    if not PartialState().is_main_process:
        return callbacks
    usual: tuple[Reporter, ...] = ("tensorboard",) if is_tensorboard_available() else ()
    reporters = usual if training.report_to is None else training.report_to
    for reporter, callback in zip(reporters, get_reporting_integration_callbacks(list(reporters)), strict=True):
        if reporter == "tensorboard":
            from torch.utils.tensorboard import SummaryWriter

            callbacks.append(callback(SummaryWriter(str(folder / "logs"))))
        else:
            callbacks.append(callback())
    return callbacks


class _StageArguments(TrainingArguments):  # type: ignore[misc]
    @property
    def device(self) -> torch.device:
        """The device of this process, without an index for a CPU: before 5.18, transformers resumes onto `cpu:0`."""
        device: torch.device = super().device
        return torch.device("cpu") if device.type == "cpu" else device


def _schedule_arguments(stage: Stage) -> tuple[str, dict[str, float]]:
    """Return the name and the options by which transformers knows the schedule of a stage."""
    if stage.schedule == "constant":
        return "constant_with_warmup", {}
    if stage.schedule == "inverse_sqrt":
        # If it were 0, transformers would take 10,000 for w in sqrt(w / step).
        return stage.schedule, {"timescale": max(1, stage.warmup_steps)}
    if not stage.final_rate:
        return stage.schedule, {}
    if stage.schedule == "cosine":
        return "cosine_with_min_lr", {"min_lr_rate": stage.final_rate}
    # The rate of every parameter group falls to the same share of its own peak, although the option is absolute.
    return "polynomial", {"lr_end": stage.final_rate * (stage.learning_rate or 0.0), "power": 1.0}
