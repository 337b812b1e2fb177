"""What a training costs: operations, memory, GPUs and hours, by arithmetic from the shape of the model.

Operations per token. A number in a matrix takes 2 forward, 2 backward for its input, and 2 for its own gradient if it
is trained. Attention takes 4 × length × width forward in each layer, half of it if it is causal, and twice that
backward. Activations that are computed again take another forward pass. Muon takes 20 rows² columns + 10 rows³ per
matrix and step (five iterations of three products), however many tokens and GPUs there are.

Memory of a GPU. Parameters, gradients and the state of the optimiser, which FSDP divides by the number of GPUs; copies
in bfloat16 of what is multiplied; activations of a micro-batch; logits and their gradient. A compiled layer keeps the
outputs of its matrices, those of two norms and of attention. Communication between GPUs is not counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel

from relexify.errors import InputError, MissingExtra
from relexify.pretrained.architecture import architecture_of
from relexify.pretrained.loading import meta_model
from relexify.training.engine.freezing import trained_names
from relexify.training.engine.groups import parameter_groups
from relexify.training.engine.muon import CHUNK as MUON_CHUNK
from relexify.training.engine.muon import ITERATIONS
from relexify.training.engine.muon import WORKSPACE as MUON_WORKSPACE
from relexify.training.hardware import MOST_GPUS, USABLE, Gpu, choose_gpus, utilisation_of
from relexify.training.loss.forward import COMPILED_CHUNK
from relexify.training.plan import LOOKAHEAD, MUON, WHOLE_STATE, Stage, Training, plan_stages
from relexify.training.protocol import lexical_parameter_names
from relexify.training.rates import Rates, choose_optimiser, hidden_width
from relexify.training.trainable import check_trainable

__all__ = ["Estimate", "Memory", "estimate"]

_FLOAT32, _BFLOAT16 = 4, 2  # bytes
_QUANTISED_FROM, _PAGED_FROM, _BLOCK = 4_096, 100_000, 256
"""Numbers of a parameter from which on bitsandbytes quantises and pages its moments, and those of a block."""

ADAPTER_OPERATIONS = 1_130
"""Operations that take as long as an adapter of LoRA does beside its own, for each input and output of its matrix.

Its products are narrow, so reading and writing activations takes longer than computing them. Fitted to one measurement:
the shape of SmolLM2-135M, rank 16, on an H200.
"""

SAVINGS: tuple[Mapping[str, Any], ...] = (
    {"checkpoint_activations": True},
    {"inner_precision": "bfloat16", "checkpoint_activations": True},
    {"optimiser_state": "8-bit", "inner_precision": "bfloat16", "checkpoint_activations": True},
    {"lora_rank": 16},
    {"lora_rank": 16, "inner_precision": "bfloat16", "checkpoint_activations": True},
)
"""Options that take less memory, which are estimated beside what is requested."""


@dataclass(frozen=True)
class Memory:
    """Peak memory of one GPU, in bytes.

    Attributes:
        weights: Parameters, and their copies in bfloat16.
        gradients: Gradients.
        optimiser: State of the optimiser, and averages of the weights.
        activations: Activations and logits, or what Muon needs after them, whichever is more.
    """

    weights: float
    gradients: float
    optimiser: float
    activations: float

    @property
    def total(self) -> float:
        """The sum of all parts."""
        return self.weights + self.gradients + self.optimiser + self.activations


@dataclass(frozen=True)
class Estimate:
    """The cost of a training with one choice of options and GPUs.

    Attributes:
        changes: Options that differ from those requested.
        gpus: Number of GPUs.
        is_sharded: Whether FSDP distributes the model over them; otherwise each GPU has all of it (DDP).
        micro_batch: Sequences that a GPU takes at once.
        parameters: Numbers in the model.
        trained: Numbers that are trained.
        tokens: Tokens of the whole training.
        operations: Operations of the whole training, on all GPUs together.
        memory: Memory of a GPU, in the stage that takes the most.
        fits: Whether the memory suffices.
        utilisation: Share of the peak of a GPU that is reached.
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
    """Estimate GPUs, memory and hours of a training, as requested and with options that take less memory.

    Args:
        model: A folder or name, as for `load_model`, or a model, also on the meta device; of a folder, only
            `config.json` is read.
        training: The options.
        gpu: One of `GPUS`, or any other.
        gpus: The number of GPUs; if None, the fewest that suffice, a power of 2.
        utilisation: Share of the peak of a GPU that is reached; if None, that of `utilisation_of`.

    Raises:
        InputError: Model or options are not possible.
    """
    training = training or Training()
    kind = choose_gpus(gpu, gpus)
    shaped = model if isinstance(model, PreTrainedModel) else meta_model(model)
    training = replace(training, steps=sum(stage.steps for stage in plan_stages(training)))
    with suppress(MissingExtra):  # no obstacle to an estimate
        check_trainable(shaped, training)
    ways: list[Mapping[str, Any]] = [{}]
    for saving in SAVINGS:
        changes = {name: value for name, value in saving.items() if getattr(training, name) == getattr(Training, name)}
        if changes in ways:
            continue
        with suppress(InputError):  # not possible
            with suppress(MissingExtra):
                check_trainable(shaped, replace(training, **changes))
            ways.append(changes)
    utilisation = utilisation_of(hidden_width(shaped)) if utilisation is None else utilisation
    return [_estimate(shaped, training, changes, kind, gpus, utilisation) for changes in ways]


@dataclass(frozen=True)
class _Matrix:
    """A matrix [outputs × inputs] of a layer, or the matrices of several experts, some of which a token uses.

    Attributes:
        name: Name of the parameter.
        outputs: Rows.
        inputs: Columns.
        count: Number of experts; otherwise 1.
        used: Number of experts that a token uses; otherwise 1.
        parts: Number of matrices that Muon takes it for, along the outputs.
    """

    name: str
    outputs: int
    inputs: int
    count: int
    used: int
    parts: int

    @property
    def numbers(self) -> int:
        return self.outputs * self.inputs * self.count

    @property
    def used_numbers(self) -> int:
        return self.outputs * self.inputs * self.used

    @property
    def muon_operations(self) -> float:
        rows, columns = sorted((self.outputs // self.parts, self.inputs))
        return ITERATIONS * (4 * rows**2 * columns + 2 * rows**3) * self.parts * self.count


@dataclass(frozen=True)
class _StageCost:
    """The cost of a stage.

    Attributes:
        steps: Optimiser steps.
        trained: Numbers that are trained.
        per_token: Operations per token.
        waiting: Operations that would take as long as adapters wait for memory, per token.
        per_step: Operations per step besides, which FSDP divides among the GPUs.
        weights: Bytes of the parameters.
        copies: Bytes of their copies in bfloat16.
        gathered: Bytes of the parameters that FSDP gathers at once.
        gradients: Bytes of the gradients.
        optimiser: Bytes of the state of the optimiser.
        activations: Bytes per token of a micro-batch.
        logits: Bytes per token of a chunk of the loss.
        workspace: Bytes that the optimiser needs for a moment.
    """

    steps: int
    trained: int
    per_token: float
    waiting: float
    per_step: float
    weights: float
    copies: float
    gathered: float
    gradients: float
    optimiser: float
    activations: float
    logits: float
    workspace: float

    def memory(self, tokens: int, gpus: int, *, is_sharded: bool) -> Memory:
        """Return the memory of a GPU that takes some tokens at once."""
        parts = gpus if is_sharded else 1
        activations = tokens * self.activations + min(tokens, COMPILED_CHUNK) * self.logits
        return Memory(
            weights=self.weights / parts + (self.gathered if is_sharded else self.copies),
            gradients=self.gradients / parts,
            optimiser=self.optimiser / parts,
            activations=max(activations, self.workspace),
        )


def _estimate(
    model: PreTrainedModel,
    requested: Training,
    changes: Mapping[str, Any],
    gpu: Gpu,
    gpus: int | None,
    utilisation: float,
) -> Estimate:
    """Return the cost with the fewest GPUs and the largest micro-batch that fit; with the least memory if none do."""
    training = replace(requested, **changes)
    if not training.stages:
        training = replace(training, optimiser=choose_optimiser(training, hidden_width(model)))
    stages = [_stage_cost(model, stage, training) for stage in plan_stages(training)]
    can_shard = (
        not training.lora_rank and training.inner_precision == "float32" and training.optimiser_state == WHOLE_STATE
    )
    # Every number of GPUs, fewest first, without and with FSDP, and every micro-batch, largest first.
    ways = []
    for number in [gpus] if gpus else [2**power for power in range(MOST_GPUS.bit_length())]:
        for is_sharded in (False, True) if can_shard and number > 1 else (False,):
            for size in _micro_batches(training, number):
                tokens = size * training.length
                memories = [stage.memory(tokens, number, is_sharded=is_sharded) for stage in stages]
                ways.append((number, is_sharded, size, max(memories, key=lambda memory: memory.total)))
    if not ways:
        if training.micro_batch and training.batch % (gpus or 1) == 0:
            raise InputError(
                f"a batch of {training.batch} cannot be cut into parts of {training.micro_batch} on each of {gpus} "
                "GPUs: give a batch that is a multiple of both, or another micro_batch"
            )
        raise InputError(
            f"a batch of {training.batch} cannot be divided over {gpus} GPUs: give a batch that is a multiple of it"
        )
    fitting = [way for way in ways if way[-1].total <= USABLE * gpu.memory]
    number, is_sharded, size, memory = fitting[0] if fitting else min(ways, key=lambda way: way[-1].total)
    # Without FSDP, every GPU orthogonalises all matrices.
    times = 1 if is_sharded else number
    step_operations = [times * stage.per_step + training.tokens_per_step * stage.per_token for stage in stages]
    operations = sum(stage.steps * each for stage, each in zip(stages, step_operations, strict=True))
    waiting = sum(stage.steps * training.tokens_per_step * stage.waiting for stage in stages)
    return Estimate(
        changes=changes,
        gpus=number,
        is_sharded=is_sharded,
        micro_batch=size,
        parameters=model.num_parameters(),
        trained=max(stage.trained for stage in stages),
        tokens=training.steps * training.tokens_per_step,
        operations=operations,
        memory=memory,
        fits=bool(fitting),
        utilisation=utilisation,
        seconds=(operations + waiting) / (number * gpu.operations * utilisation),
    )


def _micro_batches(training: Training, gpus: int) -> list[int]:
    """Return the micro-batches that divide the share of each GPU, the largest first."""
    if training.batch % gpus:
        return []
    share = training.batch // gpus
    sizes = [training.micro_batch] if training.micro_batch else range(share, 0, -1)
    return [size for size in sizes if share % size == 0]


def _stage_cost(model: PreTrainedModel, stage: Stage, training: Training) -> _StageCost:
    """Count operations and bytes of a stage, by the rules at the head of this module."""
    matrices, head = _matrices(model), model.get_output_embeddings().weight
    layers, width = int(model.config.get_text_config().num_hidden_layers), hidden_width(model)
    is_encoder = architecture_of(model) == "encoder"
    label_share = training.masking if is_encoder else 1.0

    # What is trained, in numbers.
    trained = trained_names(model, stage.trains)
    sizes = {name: parameter.numel() for name, parameter in model.named_parameters()}
    lexical = lexical_parameter_names(model) & sizes.keys()
    adapted = [matrix for matrix in matrices if training.lora_rank and matrix.name in trained and matrix.count == 1]
    adapters = sum((training.lora_rank or 0) * (matrix.outputs + matrix.inputs) for matrix in adapted)
    if training.lora_rank:
        trained = trained & lexical
    is_head_trained = any(
        parameter is head
        for name, parameter in model.named_parameters(remove_duplicate=False)  # a tied head has two names
        if name in trained
    )
    orthogonalised = [matrix for matrix in matrices if stage.optimiser == MUON and matrix.name in trained]

    # Operations per token: 2 forward, 2 backward, and 2 for the gradient of what is trained.
    inner = sum(matrix.used_numbers * (6 if matrix.name in trained else 4) for matrix in matrices) + 6 * adapters
    attention = (12 if is_encoder else 6) * layers * training.length * width
    recomputed = 0.0
    if training.checkpoint_activations:  # another forward pass: a third of the operations of attention
        recomputed = 2 * sum(matrix.used_numbers for matrix in matrices) + attention / 3

    # Bytes of parameters, of the state of the optimiser, and of copies in bfloat16.
    inner_bytes = _BFLOAT16 if training.inner_precision == "bfloat16" else _FLOAT32
    bytes_of = {name: size * (_FLOAT32 if name in lexical else inner_bytes) for name, size in sizes.items()}
    trained_bytes = sum(size for name, size in bytes_of.items() if name in trained) + adapters * _FLOAT32
    muon_sizes = [matrix.numbers for matrix in orthogonalised]
    muon_bytes = sum(bytes_of[matrix.name] for matrix in orthogonalised)
    states = muon_bytes  # its momentum
    if training.average is not None:
        states += trained_bytes
    if training.optimiser_state == WHOLE_STATE:
        moments = 3 if stage.optimiser == LOOKAHEAD else 2  # of Adam, and slow weights
        states += moments * (trained_bytes - muon_bytes)
    else:
        by_muon = {matrix.name for matrix in orthogonalised}
        numbers = [size for name, size in sizes.items() if name in trained - by_muon]
        numbers += [(training.lora_rank or 0) * size for each in adapted for size in (each.outputs, each.inputs)]
        states += sum(_moment_bytes(size, training.optimiser_state) for size in numbers)
    copied = head.numel()
    if inner_bytes != _BFLOAT16:
        copied += sum(matrix.numbers for matrix in matrices)

    # Activations per token: outputs of all matrices, and in each layer those of two norms and of attention.
    kept = sum(matrix.outputs * matrix.used for matrix in matrices) + 3 * layers * width
    if training.checkpoint_activations:  # the inputs of all layers, and all activations of one
        kept = layers * width + kept // layers
    return _StageCost(
        steps=stage.steps,
        trained=sum(size for name, size in sizes.items() if name in trained) + adapters,
        per_token=inner + (6 if is_head_trained else 4) * head.numel() * label_share + attention + recomputed,
        waiting=ADAPTER_OPERATIONS * sum(matrix.inputs + matrix.outputs for matrix in adapted),
        per_step=sum(matrix.muon_operations for matrix in orthogonalised),
        weights=sum(bytes_of.values()) + adapters * _FLOAT32,
        copies=copied * _BFLOAT16,
        # The vocabulary, a layer, and the next one
        gathered=sum(bytes_of[name] for name in lexical) + 2 / layers * sum(bytes_of[each.name] for each in matrices),
        gradients=trained_bytes,
        optimiser=states,
        activations=kept * _BFLOAT16,
        logits=2 * head.shape[0] * label_share * _BFLOAT16,  # and their gradient
        workspace=MUON_WORKSPACE * max([min(MUON_CHUNK, sum(muon_sizes)), *muon_sizes]),
    )


def _moment_bytes(numbers: int, state: str) -> int:
    """Return the bytes that bitsandbytes keeps on the GPU for both moments of a parameter; paged ones may leave it."""
    is_small = "8-bit" in state and numbers >= _QUANTISED_FROM
    is_paged = "paged" in state and numbers >= _PAGED_FROM
    moment = numbers * (1 if is_small else _FLOAT32)
    if is_paged:
        moment = 0
    if is_small:
        moment += -(-numbers // _BLOCK) * _FLOAT32  # the scale of each block, which is never paged
    return 2 * moment


def _matrices(model: PreTrainedModel) -> list[_Matrix]:
    """Return the matrices of a model, without embeddings and head."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    experts = getattr(model.config.get_text_config(), "num_experts_per_tok", None)
    found = []
    for group in parameter_groups(model, Rates(0.0, 0.0, 0.0), 0.0):
        for parameter in group["params"] if group.get("muon") else ():
            *count, outputs, inputs = (parameter.mT if group["transposed"] else parameter).shape
            number = count[0] if count else 1
            used = min(experts or number, number)
            found.append(_Matrix(names[id(parameter)], outputs, inputs, number, used, group["parts"]))
    return found
