"""One stage, from a model to a better one: what is trained, with which arguments, from which checkpoint on."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from relexify.errors import TrainingError
from relexify.progress import Advance, track
from relexify.scoring import MASK_STRIDE
from relexify.storage.checkpoints import find_checkpoint, remove_unsealed
from relexify.training.curve import Curve, Measurement
from relexify.training.data.batches import Sequences
from relexify.training.engine.arguments import (
    compiles,
    measured_steps,
    save_every,
    stage_arguments,
    stage_callbacks,
    stage_optimiser,
)
from relexify.training.engine.callbacks import Watch
from relexify.training.engine.freezing import freeze_all_but
from relexify.training.engine.randomness import isolated_randomness
from relexify.training.engine.trainer import BITS, PERPLEXITY, StageTrainer
from relexify.training.job import TrainingData
from relexify.training.loss.forward import loss_forward
from relexify.training.plan import Stage, Training

__all__ = ["StageResult", "run_stage"]

WARM_STEPS = 5

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class StageResult:
    """What a stage came to.

    Attributes:
        model: The trained model, unwrapped.
        weights: Its parameters, where they are spread over devices; None otherwise.
        curve: What was measured.
        selected: The step, of the whole run, whose parameters these are.
        tokens_per_second: Without compilation, measuring and saving; None for a stage of a few steps.
    """

    model: Any
    weights: dict[str, Any] | None
    curve: Curve
    selected: int
    tokens_per_second: float | None


@dataclass
class _Clock:
    """Tells of every step, and counts the time spent in steps alone."""

    advance: Advance
    trainer: StageTrainer | None = None
    done: int = 0
    last: float | None = None
    steps: int = 0
    seconds: float = 0.0
    skipped: int = 0
    pauses: set[int] = field(default_factory=set)

    def tick(self, step: int) -> None:
        """A step is done; the time since the last one counts, unless it held more than a step."""
        self.advance(step - self.done)
        self.done = step
        now = time.monotonic()
        if self.last is not None and self.skipped >= WARM_STEPS and step - 1 not in self.pauses:
            self.steps += 1
            self.seconds += now - self.last
        self.last = now
        self.skipped += 1
        if self.trainer is not None and _pauses(self.trainer, step):
            self.pauses.add(step)


def run_stage(
    model: Any,
    data: TrainingData,
    stage: Stage,
    training: Training,
    folder: Path,
    *,
    first_step: int = 0,
    is_last: bool = True,
) -> StageResult:
    """Train one stage, or go on with it where an earlier run was stopped.

    Args:
        model: In float32; it is changed.
        data: Text to train on and to score on.
        stage: What to train, and how long.
        training: Everything else.
        folder: For checkpoints and logs.
        first_step: Steps of the stages before.
        is_last: Whether patience is asked for here.

    Raises:
        InputError: All checkpoints are damaged, or the batch cannot be cut as asked.
        TrainingError: The loss is no longer a number, or the memory does not suffice.
        OutputError: A checkpoint cannot be written.
    """
    checkpoint = _checkpoint(folder)
    _freeze(model, stage)
    arguments = stage_arguments(stage, training, folder, select=training.selects_best)
    arguments.eval_on_start = checkpoint is None and first_step == 0
    compiled = compiles(training, stage, arguments)
    captured = compiled and arguments.device.type == "cuda" and arguments.world_size == 1
    sequences = Sequences(data.batches, first_step * training.batch, stage.steps * training.batch)
    with (
        track(f"training: {stage.name}", stage.steps) as advance,
        isolated_randomness(),
        loss_forward(
            model,
            compiled=compiled,
            stream=torch.bfloat16 if arguments.bf16 else None,
            label_share=_label_share(data),
            objectives=data.batches.objectives,
        ),
    ):
        clock = _Clock(advance)
        watch = _watch(data, stage, training, first_step, clock)
        callbacks = stage_callbacks(training, folder, is_last)
        optimiser = stage_optimiser(stage, training, arguments)
        clock.trainer = trainer = StageTrainer(
            model, arguments, sequences, watch, callbacks, optimiser=optimiser, captured=captured
        )
        _train(trainer, checkpoint, training)
    return _result(model, trainer, stage, training, first_step, clock)


def _label_share(data: TrainingData) -> float:
    """The share of places that have labels: of masked text, in training or where it is measured, if that is more."""
    return 1.0 if data.batches.label_share == 1 else max(data.batches.label_share, 1 / MASK_STRIDE)


def _checkpoint(folder: Path) -> Path | None:
    """Where an earlier run was stopped."""
    remove_unsealed(folder)
    checkpoint = find_checkpoint(folder)
    if checkpoint is not None:
        logger.info("going on from %s", checkpoint)
    return checkpoint


def _freeze(model: Any, stage: Stage) -> None:
    trained = freeze_all_but(model, stage.trains)
    logger.info("stage %s: %d of %d parameters are trained", stage.name, *_sizes(model, trained))


def _watch(data: TrainingData, stage: Stage, training: Training, first_step: int, clock: _Clock) -> Watch:
    return Watch(
        held_out=data.held_out,
        kind=data.kind,
        measured=measured_steps(training, stage, first_step),
        save_every=save_every(training),
        on_step=clock.tick,
    )


def _train(trainer: StageTrainer, checkpoint: Path | None, training: Training) -> None:
    try:
        trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    except torch.OutOfMemoryError as error:
        size = trainer.args.per_device_train_batch_size
        raise TrainingError(
            f"the GPU's memory does not suffice for {size} sequences of {training.length} tokens at once: "
            f"take fewer of them (--micro-batch {max(1, size // 2)}), or shorter ones (--length)"
        ) from error


def _result(
    model: Any, trainer: StageTrainer, stage: Stage, training: Training, first_step: int, clock: _Clock
) -> StageResult:
    spread = trainer.is_fsdp_enabled
    return StageResult(
        model=trainer.accelerator.unwrap_model(trainer.model, keep_torch_compile=False) if spread else model,
        weights=trainer.accelerator.get_state_dict(trainer.model) if spread else None,
        curve=_curve(trainer, stage, training, first_step),
        selected=first_step + _selected(trainer),
        tokens_per_second=training.tokens_per_step * clock.steps / clock.seconds if clock.seconds else None,
    )


def _pauses(trainer: StageTrainer, step: int) -> bool:
    """Whether something else comes before the next step."""
    return trainer.control.should_evaluate or trainer.control.should_save or step in trainer.watch.measured


def _curve(trainer: StageTrainer, stage: Stage, training: Training, first_step: int) -> Curve:
    """What the Trainer's log holds, which its checkpoints keep, but not in what order the languages were."""
    languages = [language for language in trainer.watch.held_out if language is not None]
    points: list[Measurement] = []
    losses, logged = [], 0
    for entry in trainer.state.log_history:
        if "loss" in entry:
            losses += [entry["loss"]] * (entry["step"] - logged)
            logged = entry["step"]
        if BITS in entry:
            step = first_step + entry["step"]
            loss = sum(losses) / len(losses) if losses else None
            tokens = step * training.tokens_per_step
            by_language = {language: entry[f"{BITS}_{language}"] for language in languages} or None
            scores = (entry[BITS], entry[PERPLEXITY], loss, by_language)
            points.append(Measurement(step, tokens, stage.name, *scores))
            losses = []
    return Curve.of(points)


def _selected(trainer: StageTrainer) -> int:
    best = trainer.state.best_global_step
    return int(best) if trainer.args.load_best_model_at_end and best else int(trainer.state.global_step)


def _sizes(model: Any, names: list[str]) -> tuple[int, int]:
    parameters = dict(model.named_parameters())
    return sum(parameters[name].numel() for name in names), sum(each.numel() for each in parameters.values())
