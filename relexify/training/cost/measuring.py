"""Measure the speed and memory of a training on this machine, in a few steps with random weights and tokens."""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from transformers import PreTrainedModel

from relexify.pretrained.architecture import IGNORED, Architecture, architecture_of
from relexify.pretrained.parameters.fresh import fresh_model
from relexify.progress import Advance, report_to, track
from relexify.scoring import HeldOut
from relexify.training.cost.peak import matrix_peak
from relexify.training.data.batches import Batch
from relexify.training.data.texts import TrainingData
from relexify.training.engine.stage import train_stage
from relexify.training.options import Training
from relexify.training.plan import plan_stages
from relexify.training.rates import fill_in_options
from relexify.training.trainable import check_trainable

__all__ = ["Measured", "measure_training"]

GPU_STEPS, CPU_STEPS = 30, 3
"""Steps of a measurement."""
CPU_BATCH = 2
"""Sequences per step on a CPU, where steps of usual size take minutes. The time of the optimiser does not depend on the
number of sequences, so its share of a step is corrected afterwards."""


@dataclass(frozen=True)
class Measured:
    """The speed of a training on this machine.

    Attributes:
        device: Name of the GPU, or `CPU`.
        steps: Number of steps; the first steps, with compilation and first allocations, are not timed.
        batch: Sequences per measured step.
        tokens_per_second: Speed with the batch of the training, without compilation.
        memory: Peak memory of the GPU in bytes; None on a CPU.
        peak: Operations per second of a large matrix product, in the number format of the training.
    """

    device: str
    steps: int
    batch: int
    tokens_per_second: float
    memory: int | None
    peak: float


@dataclass(frozen=True)
class RandomTokens:
    """Sequences of random tokens.

    Attributes:
        tokens: Number of tokens in the vocabulary.
        length: Tokens per sequence.
        label_share: Share of positions with a label.
    """

    tokens: int
    length: int
    label_share: float
    objectives = 1

    def batch(self, positions: list[int]) -> Batch:
        """Return inputs and labels of the sequences at some positions [sequences × length]."""
        generator = np.random.default_rng(positions)
        rows = torch.from_numpy(generator.integers(0, self.tokens, (len(positions), self.length)))
        has_label = torch.from_numpy(generator.random(rows.shape)) < self.label_share
        return {"input_ids": rows, "labels": rows.masked_fill(~has_label, IGNORED)}


def measure_training(model: str | Path, training: Training) -> Measured:
    """Train a model with random weights for a few steps, and measure speed and memory.

    Args:
        model: A folder or name, as for `load_model`; only its config is read.
        training: The options; the last stage of the training is measured.

    Raises:
        InputError: Model or options are not possible.
        TrainingError: The memory is too small.
    """
    on_gpu = torch.cuda.is_available()
    with torch.device("cuda" if on_gpu else "cpu"):
        made = fresh_model(model, {})
    steps, batch = (GPU_STEPS, training.batch) if on_gpu else (CPU_STEPS, min(CPU_BATCH, training.batch))
    check_trainable(made, training)
    tokens_per_step = training.tokens_per_step
    with _without_training_log():
        training = fill_in_options(training, made)
    stage = replace(plan_stages(training)[-1], steps=steps, warmup_steps=0)
    training = replace(
        training,
        steps=steps,
        batch=batch,
        micro_batch=training.micro_batch if on_gpu else None,
        compile=on_gpu,
        evaluate_every=steps,
        save_every=steps + 1,  # never
        snapshots=(),
        patience=None,
        keep_best=False,
        report_to=(),
    )
    if on_gpu:
        torch.cuda.reset_peak_memory_stats()
    with (
        tempfile.TemporaryDirectory() as folder,
        _shown_as_measurement(steps),
        _without_training_log(),
        _optimiser_times() as times,
    ):
        result = train_stage(made, _random_data(made, training), stage, training, Path(folder))
    speed = 0.0
    if result.tokens_per_second:
        seconds = training.tokens_per_step / result.tokens_per_second
        optimiser = min(seconds, sum(times[1:]) / len(times[1:]))  # without the first, which allocates the state
        rest = (seconds - optimiser) * tokens_per_step / training.tokens_per_step
        speed = tokens_per_step / (rest + optimiser)
    return Measured(
        device=torch.cuda.get_device_name() if on_gpu else "CPU",
        steps=steps,
        batch=batch,
        tokens_per_second=speed,
        memory=torch.cuda.max_memory_allocated() if on_gpu else None,
        peak=matrix_peak(torch.bfloat16 if on_gpu else torch.float32),
    )


@contextmanager
def _without_training_log() -> Iterator[None]:
    """Hide log messages of the training except warnings: rates and scores of random weights are of no interest."""
    log = logging.getLogger("relexify.training")
    level = log.level
    log.setLevel(logging.WARNING)
    try:
        yield
    finally:
        log.setLevel(level)


@contextmanager
def _shown_as_measurement(steps: int) -> Iterator[None]:
    """Report progress as one task, "measuring", that counts training steps; hide the loss and the scoring."""
    with track("measuring", steps) as advance:

        @contextmanager
        def reporter(description: str, total: int | None = None) -> Iterator[Advance]:
            yield lambda amount, status="": advance(amount) if description == "training" else None

        with report_to(reporter):
            yield


@contextmanager
def _optimiser_times() -> Iterator[list[float]]:
    """Collect the seconds of every step of the optimiser; on a GPU, only of launching its kernels."""
    starts: list[float] = []
    times: list[float] = []

    def begin(*_: object) -> None:
        starts.append(time.perf_counter())

    def end(*_: object) -> None:
        start = starts.pop()
        if not starts:  # only the outermost call, because an optimiser may call the step of its base class
            times.append(time.perf_counter() - start)

    hooks = register_optimizer_step_pre_hook(begin), register_optimizer_step_post_hook(end)
    try:
        yield times
    finally:
        for hook in hooks:
            hook.remove()


def _random_data(model: PreTrainedModel, training: Training) -> TrainingData:
    kind: Architecture = architecture_of(model)
    rows = model.get_input_embeddings().weight.shape[0]
    tokens = RandomTokens(rows, training.length, training.masking if kind == "encoder" else 1.0)
    window = tokens.batch([0])
    inputs, labels = window["input_ids"].numpy(), window["labels"].numpy()
    held_out = HeldOut(inputs, labels, tokens=int((labels != IGNORED).sum()), bytes=training.length)
    return TrainingData(tokens, {None: held_out}, kind)
