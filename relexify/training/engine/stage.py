"""Train one stage: freeze, set up the Trainer, resume from the last checkpoint, and collect the scores.

Resuming is the Trainer's: its checkpoint restores parameters, optimiser, learning rates, random state and log, and
it skips the batches that were already used. relexify finds and verifies the checkpoint
(`storage/runs/checkpoints.py`), and makes the order of batches a pure function of seed and position
(`data/batches.py`), so that skipping is exact.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import parse_flag_from_env
from transformers import PreTrainedModel

from relexify.errors import TrainingError
from relexify.pretrained.runtime.quiet import quiet_transformers
from relexify.progress import ONCE, track
from relexify.scoring import MASK_STRIDE
from relexify.storage.runs.checkpoints import find_checkpoint, remove_unsealed, resuming_from
from relexify.training.data.batches import Sequences
from relexify.training.data.texts import TrainingData
from relexify.training.engine.adapters import ADAPTERS, Adapters, add_adapters
from relexify.training.engine.arguments import (
    compiles,
    evaluated_steps,
    save_interval,
    stage_arguments,
    stage_callbacks,
    stage_optimiser,
)
from relexify.training.engine.distribution import check_checkpoint, check_distribution, unwrap
from relexify.training.engine.dropout import without_dropout
from relexify.training.engine.freezing import KeptRows, freeze_all_but
from relexify.training.engine.monitor import BITS, PERPLEXITY, StageMonitor, scores_with_losses
from relexify.training.engine.optimisers.average import swap_averages
from relexify.training.engine.randomness import isolated_randomness
from relexify.training.engine.trainer import StageTrainer
from relexify.training.loss.forward import loss_forward
from relexify.training.options import Stage, Training
from relexify.training.precision import cast_for_training
from relexify.training.results.curve import Curve, Measurement

__all__ = ["StageResult", "train_stage"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class StageResult:
    """The result of a stage.

    Attributes:
        model: The trained model, unwrapped.
        weights: Its parameters if they are distributed over devices; None otherwise.
        curve: Scores on held-out text.
        selected: The step, counted over all stages, whose parameters these are.
        tokens_per_second: Without compilation, scoring and saving; None for a stage of a few steps.
    """

    model: PreTrainedModel
    weights: dict[str, Any] | None
    curve: Curve
    selected: int
    tokens_per_second: float | None


def train_stage(
    model: PreTrainedModel,
    data: TrainingData,
    stage: Stage,
    training: Training,
    folder: Path,
    *,
    steps_before: int = 0,
    is_last: bool = True,
    snapshots: Path | None = None,
    kept_rows: int = 0,
) -> StageResult:
    """Train one stage, or resume it where an earlier run was interrupted.

    Args:
        model: The model; it is changed.
        data: Text to train on and to score on.
        stage: What to train, and for how long.
        training: All other options.
        folder: For checkpoints and logs.
        steps_before: Number of steps of the stages before.
        is_last: Whether it is the last stage, the only one that `patience` may stop.
        snapshots: The folder for the models of `Training.snapshots`.
        kept_rows: As in `TrainingJob`.

    Raises:
        InputError: All checkpoints are damaged, the batch cannot be divided as requested, or the optimiser cannot train
            a model that is distributed in this way.
        TrainingError: The loss is NaN or infinite, or the memory is too small.
        OutputError: A checkpoint cannot be written.
    """
    checkpoint = _find_last_checkpoint(folder)
    adapters = _prepare_model(model, stage, training)
    arguments = stage_arguments(stage, training, folder)
    arguments.eval_on_start = checkpoint is None and steps_before == 0
    # FSDP replaces the parameters, even of a single process.
    is_plain = arguments.world_size == 1 and not parse_flag_from_env("ACCELERATE_USE_FSDP")
    is_compiled = compiles(training, stage, arguments)
    # Recomputing activations restores the random state, which a CUDA graph cannot record.
    is_captured = is_compiled and is_plain and arguments.device.type == "cuda" and not training.checkpoint_activations
    is_only_stage = is_last and steps_before == 0
    with (
        track("training" if is_only_stage else f"training: {stage.name}", stage.steps) as advance,
        isolated_randomness(),
        quiet_transformers(),
        loss_forward(
            model,
            compiled=is_compiled,
            stream=torch.bfloat16 if arguments.bf16 else None,
            label_share=_label_share(data),
            objectives=data.batches.objectives,
        ),
        nullcontext() if training.dropout else without_dropout(model),
        _light_zero_grad(model) if is_plain else nullcontext(),
    ):
        monitor = StageMonitor(
            evaluated_steps(training, stage, steps_before),
            save_interval(training),
            advance,
            tokens_per_step=training.tokens_per_step,
            steps_before=steps_before,
            later_steps=training.steps - steps_before - stage.steps,
            new_text_steps=(data.new_sequences or 0) // training.batch,
        )
        keeping = [KeptRows(model, kept_rows)] if kept_rows else []
        trainer = StageTrainer(
            model,
            arguments,
            Sequences(data.batches, steps_before * training.batch, stage.steps * training.batch),
            data,
            [*keeping, *stage_callbacks(training, folder, is_last), monitor],
            optimiser=stage_optimiser(model, stage, training, arguments),
            captured=is_captured,
            is_averaged=bool(training.average),
            snapshots=snapshots,
            snapshot_steps={step - steps_before: step for step in training.snapshots},
        )
        check_distribution(trainer, stage, training)
        check_checkpoint(checkpoint, trainer)
        with resuming_from(checkpoint), _explained_memory(arguments.per_device_train_batch_size, training):
            trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)

    _finish_model(model, trainer, adapters, training, is_last=is_last)
    # Steps of the Trainer are counted within the stage; those of the curve within the whole run.
    best = trainer.state.best_global_step
    selected = best if arguments.load_best_model_at_end and best else trainer.state.global_step
    trained, weights = unwrap(model, trainer)
    return StageResult(
        trained,
        weights,
        curve=_read_curve(trainer.state.log_history, list(data.held_out), stage, training, steps_before),
        selected=steps_before + int(selected),
        tokens_per_second=training.tokens_per_step / monitor.seconds_per_step if monitor.seconds_per_step else None,
    )


def _find_last_checkpoint(folder: Path) -> Path | None:
    """Return the checkpoint to resume from, or None; create the folder if it does not exist.

    Raises:
        InputError: All checkpoints are damaged.
    """
    remove_unsealed(folder)
    checkpoint = find_checkpoint(folder)
    if checkpoint is not None:
        logger.info("resuming from %s", checkpoint)
    elif folder.exists():
        logger.info("an earlier run was interrupted before its first checkpoint; starting again")
    folder.mkdir(parents=True, exist_ok=True)
    return checkpoint


def _label_share(data: TrainingData) -> float:
    """Return the share of positions that have labels; of masked text, the larger one of training and scoring."""
    share = data.batches.label_share
    return 1.0 if share == 1 else max(share, 1 / MASK_STRIDE)


@contextmanager
def _explained_memory(sequences: int, training: Training) -> Iterator[None]:
    """Say what to do if the GPU has too little memory for as many sequences at once."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise TrainingError(
            f"the GPU's memory is too small for {sequences} sequences of {training.length} tokens at once: "
            f"take fewer of them (`micro_batch={max(1, sequences // 2)}`), or shorter ones (`length`)"
        ) from error


def _prepare_model(model: PreTrainedModel, stage: Stage, training: Training) -> Adapters | None:
    """Set number formats, freeze what the stage does not train, and add adapters if they are trained instead."""
    cast_for_training(model, training)
    freeze_all_but(model, stage.trains)
    adapters = None
    if training.lora_rank:
        adapters = add_adapters(
            model,
            training.lora_rank,
            variant=training.lora_variant,
            alpha=training.lora_alpha,
            seed=training.seed,
        )
    parameters = list(model.parameters())
    trained = sum(parameter.numel() for parameter in parameters if parameter.requires_grad)
    total = sum(parameter.numel() for parameter in parameters)
    share = f"all {total:,}" if trained == total else f"{trained:,} of {total:,}"
    logger.info("stage %s: trains %s parameters", stage.name, share, extra=ONCE)
    return adapters


def _finish_model(
    model: PreTrainedModel, trainer: StageTrainer, adapters: Adapters | None, training: Training, *, is_last: bool
) -> None:
    """Turn the model as the Trainer leaves it into the result of the stage: averaged, and without adapters."""
    if training.checkpoint_activations:
        model.gradient_checkpointing_disable()
    has_best = trainer.args.load_best_model_at_end and trainer.state.best_model_checkpoint is not None
    if training.average and not has_best:  # the model of a checkpoint is an average already
        swap_averages(trainer.optimizer)
    if adapters is not None and (training.lora_merged or not is_last):
        adapters.merge()
    elif adapters is not None:
        adapters.separate(Path(trainer.args.output_dir) / ADAPTERS if trainer.args.should_save else None)


@contextmanager
def _light_zero_grad(model: PreTrainedModel) -> Iterator[None]:
    """Let `zero_grad`, which the Trainer calls in every step, skip the walk through all modules.

    The method is replaced on this instance alone, for one stage. No stage changes which parameters it trains, and the
    others have no gradient, so the list that is made here stays complete.
    """
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]

    def zero_grad(set_to_none: bool = True) -> None:
        for parameter in trained:
            parameter.grad = None

    vars(model)["zero_grad"] = zero_grad
    try:
        yield
    finally:
        del vars(model)["zero_grad"]


def _read_curve(
    log: list[dict[str, Any]], languages: list[str | None], stage: Stage, training: Training, steps_before: int
) -> Curve:
    """Return the scores in the Trainer's log, which checkpoints contain.

    The log loses the order of languages, so it is passed in.
    """
    points = []
    for entry, loss in scores_with_losses(log):
        step = steps_before + entry["step"]
        by_language = {name: entry[f"{BITS}_{name}"] for name in languages if name is not None}
        points.append(
            Measurement(
                step=step,
                tokens=step * training.tokens_per_step,
                stage=stage.name,
                bits_per_byte=entry[BITS],
                perplexity=entry[PERPLEXITY],
                loss=loss,
                by_language=by_language or None,
            )
        )
    return Curve.of(points)
