"""What a stage of training needs: operations and bytes, counted from the shape of the model.

Operations per token. A number in a matrix takes 2 forward, 2 backward for its input, and 2 for its own gradient if it
is trained. Attention takes 4 × length × width forward in each layer, half of it if it is causal, and twice that
backward. Activations that are computed again take another forward pass. Muon takes 16 rows² columns + 8 rows³ per
matrix and step (four polynomials of three products), however many tokens and GPUs there are. The rest of a step of the
optimiser takes as long as reading and writing what it needs in the memory of the GPU; the transfer of paged moments
from and to the host is not counted.

Memory of a GPU. Parameters and the state of the optimiser, which FSDP divides by the number of GPUs, are always there.
The peak is at one of two moments:

    the loss        copies in bfloat16 of what is multiplied, all activations of a micro-batch, and logits, which their
                    gradient overwrites; of the gradients, that of the head
    the optimiser   all gradients, and what Muon needs to orthogonalise

In between, gradients appear as activations go. Gradients that are summed over several micro-batches are there at both
moments, and so are those that DDP collects from all GPUs.

A compiled layer keeps the outputs of its matrices and that of attention. If they are trained, or have adapters, it also
keeps their inputs: the outputs of its norms, and the product inside the feed-forward network.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from torch import nn
from transformers import PreTrainedModel

from relexify.pretrained.architecture import LayerSizes, architecture_of, hidden_width, layer_sizes
from relexify.training.engine.freezing import trained_names
from relexify.training.engine.optimisers.groups import parameter_groups
from relexify.training.engine.optimisers.muon import CHUNK as MUON_CHUNK
from relexify.training.engine.optimisers.muon import POLYNOMIALS
from relexify.training.engine.optimisers.muon import WORKSPACE as MUON_WORKSPACE
from relexify.training.loss.forward import COMPILED_CHUNK, repeated_blocks
from relexify.training.options import DORA, FULL_STATE, LOOKAHEAD, MUON, Stage, Training
from relexify.training.plan import plan_stages
from relexify.training.protocol import lexical_parameter_names
from relexify.training.rates import Rates, choose_optimiser

__all__ = ["Memory", "StageCost", "stage_cost", "stage_costs"]

_FLOAT32, _BFLOAT16 = 4, 2  # bytes
_QUANTISED_FROM, _PAGED_FROM, _BLOCK = 4_096, 100_000, 256
"""The fewest numbers of a parameter whose moments bitsandbytes quantises, and pages, and the numbers of a block."""

ADAPTER_TRAFFIC = 11
"""Bytes that an adapter of LoRA reads and writes for each input and output of its matrix, per token.

Its products are narrow, so reading and writing activations takes longer than computing them. Fitted to one measurement:
the shape of SmolLM2-135M, rank 16, on an H200.
"""

ADAM_TRAFFIC = 12
"""Bytes that AdamW reads and writes for each number besides its moments: the number, its gradient, the new number."""
MUON_TRAFFIC = 46
"""Bytes that Muon reads and writes for each number, without its products: 4 for the gradient when the momentum is
updated, which is counted with the state; 12 for gradient, momentum and the direction between them; 6 for the direction
and its copy in bfloat16; 2 for the norm of the copy, and 4 for dividing the copy by it; 6 for the last product and its
copy in float32, the update; 12 for the number, the update and the new number."""

AROUND_LAST_NORM = 7
"""Activations between the layers and the logits that are there at the loss, as multiples of the width in bfloat16.

The last norm is not compiled: it keeps its input, also in float32 (3), the quotient, and its output. The other two are
the gradient of its output, and that of a chunk of it.
"""


@dataclass(frozen=True)
class Memory:
    """Peak memory of one GPU, in bytes.

    Attributes:
        weights: Parameters, and their copies in bfloat16 if they are there at that moment.
        gradients: Gradients that are there at that moment.
        optimiser: State of the optimiser, and averages of the weights.
        activations: Activations and logits, or what Muon needs after them.
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
class StageCost:
    """The cost of a stage.

    Attributes:
        steps: Optimiser steps.
        trained: Numbers that are trained.
        per_token: Operations per token.
        adapter_traffic: Bytes that adapters read and write, per token.
        per_step: Operations per step besides, which FSDP divides among the GPUs.
        traffic: Bytes per step that the optimiser reads and writes, paged moments included, which FSDP divides too.
        weights: Bytes of the parameters.
        copies: Bytes of their copies in bfloat16.
        gathered: Bytes of the parameters that FSDP gathers at once.
        gradients: Bytes of the gradients.
        head_gradient: Bytes of that of the head while it is computed.
        optimiser: Bytes of the state of the optimiser that stay on the GPU: without paged moments.
        activations: Bytes per token of a micro-batch.
        logits: Bytes per token of a chunk of the loss.
        workspace: Bytes that the optimiser needs for a moment.
        is_recorded: Whether a single GPU records its passes as a CUDA graph.
    """

    steps: int
    trained: int
    per_token: float
    adapter_traffic: float
    per_step: float
    traffic: float
    weights: float
    copies: float
    gathered: float
    gradients: float
    head_gradient: float
    optimiser: float
    activations: float
    logits: float
    workspace: float
    is_recorded: bool

    def memory(self, tokens: int, gpus: int, *, is_sharded: bool, accumulates: bool) -> Memory:
        """Return the memory of a GPU that takes some tokens at once, and maybe sums gradients over several times."""
        parts = gpus if is_sharded else 1
        weights, gradients, optimiser = (each / parts for each in (self.weights, self.gradients, self.optimiser))
        is_copied = gpus > 1 and not is_sharded  # into the buckets of DDP
        at_loss = Memory(
            weights=weights + (self.gathered if is_sharded else self.copies),
            gradients=(accumulates + is_copied) * gradients + self.head_gradient,
            optimiser=optimiser,
            activations=tokens * self.activations + min(tokens, COMPILED_CHUNK) * self.logits,
        )
        # A CUDA graph keeps the gradients that it writes, so their sums are other tensors.
        is_summed_elsewhere = accumulates and gpus == 1 and self.is_recorded
        at_optimiser = Memory(
            weights=weights,
            gradients=2 * gradients if is_summed_elsewhere or is_copied else gradients,
            optimiser=optimiser,
            activations=self.workspace,
        )
        return max(at_loss, at_optimiser, key=lambda memory: memory.total)


def stage_costs(model: PreTrainedModel, training: Training) -> list[StageCost]:
    """Count operations and bytes of all stages, with the optimiser that is chosen if none is given.

    Args:
        model: The model; it may be on the meta device.
        training: The options.
    """
    if not training.stages:
        training = replace(training, optimiser=choose_optimiser(training, hidden_width(model)))
    return [stage_cost(model, stage, training) for stage in plan_stages(training)]


def stage_cost(model: PreTrainedModel, stage: Stage, training: Training) -> StageCost:
    """Count operations and bytes of a stage, by the rules at the head of this module.

    Args:
        model: The model; it may be on the meta device.
        stage: The stage.
        training: The options.
    """
    found = _count(model, stage, training)
    head, shape = model.get_output_embeddings().weight, layer_sizes(model)
    label_share = training.masking if architecture_of(model) == "encoder" else 1.0
    is_head_trained = any(
        parameter is head
        for name, parameter in model.named_parameters(remove_duplicate=False)  # a tied head has two names
        if name in found.trained
    )

    # Bytes of parameters, and of copies in bfloat16.
    inner_bytes = _BFLOAT16 if training.inner_precision == "bfloat16" else _FLOAT32
    bytes_of = {name: size * (_FLOAT32 if name in found.lexical else inner_bytes) for name, size in found.sizes.items()}
    trained_bytes = sum(bytes_of[name] for name in found.trained_parameters) + found.adapters * _FLOAT32
    copied = head.numel() + found.adapters
    if inner_bytes != _BFLOAT16:
        copied += sum(matrix.numbers for matrix in found.matrices)

    muon_sizes = [matrix.numbers for matrix in found.orthogonalised]
    trained = sum(found.sizes[name] for name in found.trained_parameters) + found.adapters
    state_bytes, resident_bytes = (
        _optimiser_bytes(found, bytes_of, trained_bytes, stage, training, with_paged=with_paged)
        for with_paged in (True, False)
    )
    # Operations per parameter: 2 forward, 2 for the gradient of the input, 2 for that of the weight if it is trained.
    predicting = (6 if is_head_trained else 4) * head.numel() * label_share
    return StageCost(
        steps=stage.steps,
        trained=trained,
        per_token=_layer_operations(model, found, training) + predicting,
        adapter_traffic=ADAPTER_TRAFFIC * sum(matrix.inputs + matrix.outputs for matrix in found.adapted),
        per_step=sum(matrix.muon_operations for matrix in found.orthogonalised),
        traffic=2 * state_bytes + ADAM_TRAFFIC * (trained - sum(muon_sizes)) + MUON_TRAFFIC * sum(muon_sizes),
        weights=sum(bytes_of.values()) + found.adapters * _FLOAT32,
        copies=copied * _BFLOAT16,
        # The vocabulary, a layer, and the next one
        gathered=sum(bytes_of[name] for name in found.lexical)
        + 2 / shape.layers * sum(bytes_of[matrix.name] for matrix in found.matrices),
        gradients=trained_bytes,
        # In float32, where chunks are summed, and that of a chunk in bfloat16
        head_gradient=head.numel() * (_FLOAT32 + _BFLOAT16) if is_head_trained else 0,
        optimiser=resident_bytes,
        activations=(_layer_activations(model, found, training) + AROUND_LAST_NORM * shape.width) * _BFLOAT16,
        logits=head.shape[0] * label_share * _BFLOAT16,
        workspace=MUON_WORKSPACE * max([min(MUON_CHUNK, sum(muon_sizes)), *muon_sizes]),
        is_recorded=not training.checkpoint_activations,
    )


@dataclass(frozen=True)
class _Counted:
    """The parameters of a model in a stage, in numbers.

    Attributes:
        sizes: Numbers of every parameter, by name.
        lexical: Names of the parameters that belong to the vocabulary.
        trained: Names of all that is trained, aliases of tied parameters included, without what adapters stand for.
        matrices: The matrices of the layers.
        adapted: Those that have an adapter.
        adapter_sizes: Numbers of every parameter of an adapter.
        orthogonalised: Those that Muon trains.
    """

    sizes: Mapping[str, int]
    lexical: set[str]
    trained: set[str]
    matrices: list[_Matrix]
    adapted: list[_Matrix]
    adapter_sizes: list[int]
    orthogonalised: list[_Matrix]

    @property
    def adapters(self) -> int:
        """Numbers of all adapters."""
        return sum(self.adapter_sizes)

    @property
    def trained_parameters(self) -> list[str]:
        """Names of the parameters that are trained, each once."""
        return [name for name in self.sizes if name in self.trained]


def _count(model: PreTrainedModel, stage: Stage, training: Training) -> _Counted:
    """Count what a stage trains."""
    matrices = _find_matrices(model)
    sizes = {name: parameter.numel() for name, parameter in model.named_parameters()}
    lexical = lexical_parameter_names(model) & sizes.keys()
    trained = trained_names(model, stage.trains)
    adapted = [matrix for matrix in matrices if training.lora_rank and matrix.name in trained and matrix.count == 1]
    adapter_sizes = [(training.lora_rank or 0) * size for each in adapted for size in (each.outputs, each.inputs)]
    if training.lora_rank:
        trained = trained & lexical
    if training.lora_variant == DORA:
        adapter_sizes += [matrix.outputs for matrix in adapted]  # the norms of their rows
    return _Counted(
        sizes=sizes,
        lexical=lexical,
        trained=trained,
        matrices=matrices,
        adapted=adapted,
        adapter_sizes=adapter_sizes,
        orthogonalised=[matrix for matrix in matrices if stage.optimiser == MUON and matrix.name in trained],
    )


def _layer_operations(model: PreTrainedModel, found: _Counted, training: Training) -> float:
    """Return the operations per token in the layers: 2 forward, 2 backward, 2 for the gradient of what is trained."""
    inner = sum(matrix.used_numbers * (6 if matrix.name in found.trained else 4) for matrix in found.matrices)
    # QKᵀ and the sum over V take 4 · length · width forward and twice that backward; causal attention needs half of it.
    by_position, shape = 12 if architecture_of(model) == "encoder" else 6, layer_sizes(model)
    attention = by_position * shape.layers * training.length * shape.width
    recomputed = 0.0
    if training.checkpoint_activations:  # another forward pass: a third of the operations of attention
        recomputed = 2 * sum(matrix.used_numbers for matrix in found.matrices) + attention / 3
    return inner + 6 * found.adapters + attention + recomputed


def _layer_activations(model: PreTrainedModel, found: _Counted, training: Training) -> int:
    """Return how many numbers per token the layers keep for the backward pass, in bfloat16."""
    shape = layer_sizes(model)
    width, attended = shape.width, shape.heads * shape.head_width  # the latter is that of attention
    kept = sum(matrix.outputs * matrix.used for matrix in found.matrices) + shape.layers * attended
    with_gradient = [*found.adapted, *(matrix for matrix in found.matrices if matrix.name in found.trained)]
    if with_gradient:
        kept += _normalised(model, shape)
        # The matrix at the end of a feed-forward network reads neither the width of the model nor that of attention.
        ends = [each for each in with_gradient if each.outputs == width and each.inputs not in (width, attended)]
        kept += sum(matrix.inputs * matrix.used for matrix in ends)
        kept += len(found.adapted) * (training.lora_rank or 0)  # the outputs of A
    if training.checkpoint_activations:  # the inputs of all layers, and all activations of one
        kept = shape.layers * width + kept // shape.layers
    return kept


def _optimiser_bytes(
    found: _Counted,
    bytes_of: Mapping[str, int],
    trained_bytes: int,
    stage: Stage,
    training: Training,
    *,
    with_paged: bool,
) -> int:
    """Return the bytes of the moments of all that is trained, with or without paged ones, and of its average."""
    muon_bytes = sum(bytes_of[matrix.name] for matrix in found.orthogonalised)
    states = muon_bytes  # its momentum
    if training.average is not None:
        states += trained_bytes
    if training.optimiser_state == FULL_STATE:
        moments = 3 if stage.optimiser == LOOKAHEAD else 2  # of Adam, and slow weights
        return states + moments * (trained_bytes - muon_bytes)
    by_muon = {matrix.name for matrix in found.orthogonalised}
    numbers = [found.sizes[name] for name in found.trained_parameters if name not in by_muon]
    numbers += found.adapter_sizes
    return states + sum(_moment_bytes(size, training.optimiser_state, with_paged=with_paged) for size in numbers)


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
        return len(POLYNOMIALS) * (4 * rows**2 * columns + 2 * rows**3) * self.parts * self.count


def _moment_bytes(numbers: int, state: str, *, with_paged: bool) -> int:
    """Return the bytes of both moments of a parameter in bitsandbytes, with or without those that may leave the GPU."""
    is_small = "8-bit" in state and numbers >= _QUANTISED_FROM
    is_paged = "paged" in state and numbers >= _PAGED_FROM
    moment = numbers * (1 if is_small else _FLOAT32)
    if is_paged and not with_paged:
        moment = 0
    if is_small:
        moment += -(-numbers // _BLOCK) * _FLOAT32  # the scale of each block, which is never paged
    return 2 * moment


def _normalised(model: PreTrainedModel, shape: LayerSizes) -> int:
    """Return the numbers per token that all norms in the layers return, in bfloat16."""
    numbers, uses = 0, {"q": shape.heads, "k": shape.key_heads}
    for block in repeated_blocks(model):
        for path, module in block.named_modules():
            weight = getattr(module, "weight", None)
            if isinstance(weight, nn.Parameter) and weight.ndim == 1:
                # Those of queries and keys (q_norm, key_layernorm, …) may have the weights of one head, used for each.
                initial = path.rpartition(".")[-1][:1]
                times = uses.get(initial, 1) if len(weight) == shape.head_width else 1
                # LayerNorm returns float32.
                numbers += len(weight) * times * (2 if isinstance(module, nn.LayerNorm) else 1)
    return numbers


def _find_matrices(model: PreTrainedModel) -> list[_Matrix]:
    """Return the matrices of a model, without embeddings and head."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    experts = layer_sizes(model).experts
    found = []
    for group in parameter_groups(model, Rates(0.0, 0.0, 0.0), 0.0):
        for parameter in group["params"] if group.get("muon") else ():
            *count, outputs, inputs = (parameter.mT if group["transposed"] else parameter).shape
            number = count[0] if count else 1
            used = min(experts or number, number)
            found.append(_Matrix(names[id(parameter)], outputs, inputs, number, used, group["parts"]))
    return found
