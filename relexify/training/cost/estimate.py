"""Estimate a training: GPUs, memory and hours, by arithmetic from the shape of the model.

`stage.py` counts the operations and bytes of a stage. This module finds the fewest GPUs and the largest micro-batch
that have enough memory. Communication between GPUs is not counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel

from relexify.errors import InputError, MissingExtra
from relexify.pretrained.architecture import hidden_width
from relexify.pretrained.loading import meta_model
from relexify.training.cost.hardware import MOST_GPUS, USABLE, USED_BANDWIDTH, Gpu, choose_gpus, utilisation_of
from relexify.training.cost.stage import Memory, StageCost, stage_costs
from relexify.training.options import FULL_STATE, Training
from relexify.training.plan import count_steps
from relexify.training.rates import choose_average
from relexify.training.trainable import check_trainable

__all__ = ["Estimate", "estimate"]

SAVINGS: tuple[Mapping[str, Any], ...] = (
    {"average": 0.0},
    {"checkpoint_activations": True},
    {"inner_precision": "bfloat16", "checkpoint_activations": True},
    {"optimiser_state": "8-bit", "inner_precision": "bfloat16", "checkpoint_activations": True},
    {"lora_rank": 16},
    {"lora_rank": 16, "inner_precision": "bfloat16", "checkpoint_activations": True},
)
"""Options that take less memory; each is estimated in addition to the requested options."""


@dataclass(frozen=True)
class Estimate:
    """The cost of a training with one choice of options and GPUs.

    Attributes:
        changes: Options that differ from those requested.
        gpus: Number of GPUs.
        is_sharded: Whether FSDP distributes the model over them; otherwise each GPU has all of it (DDP).
        micro_batch: Number of sequences that a GPU computes at once.
        parameters: Number of parameters of the model.
        trained: Number of trained parameters.
        tokens: Number of tokens of the whole training.
        operations: Operations of the whole training, on all GPUs together.
        memory: Memory of a GPU, in the stage that takes the most.
        fits: Whether the GPUs have enough memory.
        utilisation: Share of a GPU's peak speed that is reached.
        seconds: Duration, without scoring and checkpoints.
    """

    changes: Mapping[str, Any]
    gpus: int
    is_sharded: bool
    micro_batch: int
    parameters: int
    trained: int
    tokens: int
    operations: float
    memory: Memory
    fits: bool
    utilisation: float
    seconds: float

    @property
    def tokens_per_second(self) -> float:
        """Speed of all GPUs together."""
        return self.tokens / self.seconds


def estimate(
    model: str | Path | PreTrainedModel,
    training: Training | None = None,
    *,
    gpu: str | Gpu = "h200",
    gpus: int | None = None,
    utilisation: float | None = None,
) -> list[Estimate]:
    """Estimate GPUs, memory and hours of a training, with the requested options and with options that take less memory.

    Args:
        model: A folder or name, as for `load_model`, or a model, possibly on the meta device. Only the `config.json` of
            a folder is read.
        training: The options.
        gpu: A name in `GPUS`, or the data of another GPU.
        gpus: The number of GPUs; if None, the smallest power of 2 that suffices.
        utilisation: Share of a GPU's peak speed that is reached; if None, the result of `utilisation_of`.

    Raises:
        InputError: Model or options are not possible.
    """
    training = training or Training()
    kind = choose_gpus(gpu, gpus)
    shaped = model if isinstance(model, PreTrainedModel) else meta_model(model)
    training = replace(training, steps=count_steps(training))
    with suppress(MissingExtra):  # an estimate does not need the missing package
        check_trainable(shaped, training)
    ways: list[Mapping[str, Any]] = [{}]
    for saving in SAVINGS:
        changes = {name: value for name, value in saving.items() if getattr(training, name) == getattr(Training, name)}
        if not choose_average(training, shaped.num_parameters()):
            changes.pop("average", None)
        elif not choose_average(replace(training, **changes), shaped.num_parameters()):
            changes["average"] = 0.0  # these options turn it off, which saves memory too
        if changes in ways:
            continue
        with suppress(InputError):  # skip options that are not possible for this model
            with suppress(MissingExtra):
                check_trainable(shaped, replace(training, **changes))
            ways.append(changes)
    utilisation = utilisation_of(hidden_width(shaped)) if utilisation is None else utilisation
    return [_estimate(shaped, training, changes, kind, gpus, utilisation) for changes in ways]


@dataclass(frozen=True)
class _Layout:
    """One way to distribute a training over GPUs.

    Attributes:
        gpus: Number of GPUs.
        is_sharded: As in `Estimate`.
        micro_batch: As in `Estimate`.
        memory: As in `Estimate`.
    """

    gpus: int
    is_sharded: bool
    micro_batch: int
    memory: Memory


def _estimate(
    model: PreTrainedModel,
    requested: Training,
    changes: Mapping[str, Any],
    gpu: Gpu,
    gpus: int | None,
    utilisation: float,
) -> Estimate:
    """Return the cost with the fewest GPUs and the largest micro-batch that fit; if none fit, with the least memory."""
    training = replace(requested, **changes)
    training = replace(training, average=choose_average(training, model.num_parameters()))
    stages = stage_costs(model, training)
    layouts = _layouts(stages, training, gpus)
    fitting = [layout for layout in layouts if layout.memory.total <= USABLE * gpu.memory]
    chosen = fitting[0] if fitting else min(layouts, key=lambda layout: layout.memory.total)
    # Without FSDP, every GPU updates all parameters.
    times = 1 if chosen.is_sharded else chosen.gpus
    step_operations = [times * stage.per_step + training.tokens_per_step * stage.per_token for stage in stages]
    operations = sum(stage.steps * each for stage, each in zip(stages, step_operations, strict=True))
    traffic = sum(
        stage.steps * (times * stage.traffic + training.tokens_per_step * stage.adapter_traffic) for stage in stages
    )
    return Estimate(
        changes=changes,
        gpus=chosen.gpus,
        is_sharded=chosen.is_sharded,
        micro_batch=chosen.micro_batch,
        parameters=model.num_parameters(),
        trained=max(stage.trained for stage in stages),
        tokens=training.steps * training.tokens_per_step,
        operations=operations,
        memory=chosen.memory,
        fits=bool(fitting),
        utilisation=utilisation,
        seconds=operations / (chosen.gpus * gpu.operations * utilisation)
        + traffic / (chosen.gpus * gpu.bandwidth * USED_BANDWIDTH),
    )


def _layouts(stages: Sequence[StageCost], training: Training, gpus: int | None) -> list[_Layout]:
    """Return all layouts: numbers of GPUs, fewest first; without and with FSDP; micro-batches, largest first.

    Args:
        stages: The stages; the memory of a layout is the memory of its largest stage.
        training: The options.
        gpus: The number of GPUs; if None, all powers of 2.

    Raises:
        InputError: The batch cannot be divided over the GPUs.
    """
    can_shard = (
        not training.lora_rank and training.inner_precision == "float32" and training.optimiser_state == FULL_STATE
    )
    layouts = []
    for number in [gpus] if gpus else [2**power for power in range(MOST_GPUS.bit_length())]:
        for is_sharded in (False, True) if can_shard and number > 1 else (False,):
            for size in _micro_batches(training, number):
                tokens = size * training.length
                accumulates = size * number < training.batch
                memories = [
                    stage.memory(tokens, number, is_sharded=is_sharded, accumulates=accumulates) for stage in stages
                ]
                most = max(memories, key=lambda memory: memory.total)
                layouts.append(_Layout(number, is_sharded, size, most))
    if layouts:
        return layouts
    if training.micro_batch and training.batch % (gpus or 1) == 0:
        raise InputError(
            f"a batch of {training.batch} cannot be cut into parts of {training.micro_batch} on each of {gpus} "
            "GPUs: give a batch that is a multiple of their product, or another `micro_batch`"
        )
    raise InputError(
        f"a batch of {training.batch} cannot be divided over {gpus} GPUs: give a batch that is a multiple of {gpus}"
    )


def _micro_batches(training: Training, gpus: int) -> list[int]:
    """Return the micro-batches that divide each GPU's share of the batch, largest first."""
    if training.batch % gpus:
        return []
    share = training.batch // gpus
    sizes = [training.micro_batch] if training.micro_batch else range(share, 0, -1)
    return [size for size in sizes if share % size == 0]
