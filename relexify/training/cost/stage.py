"""Operations and bytes of a training stage, counted from the shape of the model.

Operations per token. Each element of a matrix takes 2 operations forward, 2 for the gradient of the input, and 2 for
its own gradient if it is trained. Attention takes 4 × length × width forward in each layer, half of this if it is
causal, and twice as much backward. Recomputing activations takes another forward pass. Muon takes 16 rows² columns +
8 rows³ per matrix and step (four polynomials of three products), independent of the number of tokens and GPUs. For the
rest of an optimiser step, only reading and writing GPU memory counts; the transfer of paged moments between GPU and
host does not.

Memory of a GPU. Parameters and optimiser state are always in memory; FSDP divides them by the number of GPUs. The peak
is at one of two moments:

    the loss        bfloat16 copies of the matrices, all activations of a micro-batch, the logits (their gradient
                    overwrites them), and the gradient of the head
    the optimiser   all gradients, and the workspace in which Muon orthogonalises

Between these moments, activations are freed while gradients are allocated. Gradients summed over several micro-batches
are in memory at both moments, and so are the gradients that DDP collects from all GPUs.

A compiled layer keeps the outputs of its matrices and the output of attention. Matrices that are trained or have
adapters also need their inputs: the outputs of the norms, and the product inside the feed-forward network.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from torch import nn
from transformers import PreTrainedModel

from relexify.pretrained.architecture import LayerSizes, architecture_of, hidden_width, layer_sizes
from relexify.training.engine.freezing import trained_names
from relexify.training.engine.optimisers.average import update_interval
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
"""In bitsandbytes: the smallest parameter (in elements) whose moments are quantised, the smallest whose moments are
paged, and the number of elements that share a scale."""

ADAPTER_TRAFFIC = 11
"""Bytes that a LoRA adapter reads and writes per token, for each input and output of its matrix.

Its products are narrow, so reading and writing activations takes longer than computing them. Fitted to one measurement:
the shape of SmolLM2-135M, rank 16, on an H200.
"""

ADAM_TRAFFIC = 12
"""Bytes that AdamW reads and writes per parameter, without its moments: the value, its gradient and the new value."""
MUON_TRAFFIC = 46
"""Bytes that Muon reads and writes per parameter, outside its matrix products.

     4   gradient, to update the momentum (which is counted as optimiser state)
    12   gradient, momentum, and the direction that is interpolated between them
     6   direction, and its copy in bfloat16
     2   copy, to compute its norm
     4   copy, to divide it by the norm
     6   last product, and its copy in float32, the update
    12   old value, update, new value
"""

AROUND_LAST_NORM = 7
"""Activations between the last layer and the logits that are in memory at the loss, in multiples of the width in
bfloat16.

The last norm is not compiled: it keeps its input in bfloat16 and in float32 (3), the normalised value, and its output.
The other two are the gradient of its output, and the gradient of one chunk of its output.
"""


@dataclass(frozen=True)
class Memory:
    """Peak memory of one GPU, in bytes.

    Attributes:
        weights: Parameters, and their bfloat16 copies if they exist at the peak.
        gradients: Gradients that exist at the peak.
        optimiser: Optimiser state, and averages of the weights.
        activations: Activations and logits, or the workspace of the optimiser.
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
        steps: Number of optimiser steps.
        trained: Number of trained parameters.
        per_token: Operations per token.
        adapter_traffic: Bytes that adapters read and write, per token.
        per_step: Operations of an optimiser step, which FSDP divides among the GPUs.
        traffic: Bytes that an optimiser step reads and writes, including paged moments; FSDP divides them too.
        weights: Bytes of the parameters.
        copies: Bytes of the parameters' copies in bfloat16.
        gathered: Bytes of the parameters that FSDP gathers at once.
        gradients: Bytes of the gradients.
        head_gradient: Bytes of the head's gradient during the loss.
        optimiser: Bytes of the optimiser state that stay on the GPU: without paged moments.
        activations: Bytes of activations per token of a micro-batch.
        logits: Bytes of logits per token of a chunk.
        workspace: Bytes that the optimiser needs temporarily.
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
        """Return the memory of a GPU.

        Args:
            tokens: Number of tokens in a micro-batch.
            gpus: Number of GPUs.
            is_sharded: Whether FSDP distributes the model over them.
            accumulates: Whether a step sums gradients over several micro-batches.
        """
        parts = gpus if is_sharded else 1
        weights, gradients, optimiser = (each / parts for each in (self.weights, self.gradients, self.optimiser))
        is_copied = gpus > 1 and not is_sharded  # into the buckets of DDP
        at_loss = Memory(
            weights=weights + (self.gathered if is_sharded else self.copies),
            gradients=(accumulates + is_copied) * gradients + self.head_gradient,
            optimiser=optimiser,
            activations=tokens * self.activations + min(tokens, COMPILED_CHUNK) * self.logits,
        )
        # A CUDA graph always writes gradients to the same tensors, so their sums need separate tensors.
        is_summed_elsewhere = accumulates and gpus == 1 and self.is_recorded
        at_optimiser = Memory(
            weights=weights,
            gradients=2 * gradients if is_summed_elsewhere or is_copied else gradients,
            optimiser=optimiser,
            activations=self.workspace,
        )
        return max(at_loss, at_optimiser, key=lambda memory: memory.total)


def stage_costs(model: PreTrainedModel, training: Training) -> list[StageCost]:
    """Count operations and bytes of all stages; if no optimiser is given, choose it as the training does.

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

    # Bytes of parameters; `copied` is the number of elements that also have a bfloat16 copy.
    inner_bytes = _BFLOAT16 if training.inner_precision == "bfloat16" else _FLOAT32
    bytes_of = {name: size * (_FLOAT32 if name in found.lexical else inner_bytes) for name, size in found.sizes.items()}
    trained_bytes = sum(bytes_of[name] for name in found.trained_parameters) + found.adapters * _FLOAT32
    copied = head.numel() + found.adapters
    if inner_bytes != _BFLOAT16:
        copied += sum(matrix.numbers for matrix in found.matrices)

    average_bytes = trained_bytes if training.average else 0
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
        traffic=2 * (state_bytes - average_bytes)
        + ADAM_TRAFFIC * (trained - sum(muon_sizes))
        + MUON_TRAFFIC * sum(muon_sizes)
        + 3 * average_bytes / update_interval(training.average or 0.0),  # read with the parameters, and written
        weights=sum(bytes_of.values()) + found.adapters * _FLOAT32,
        copies=copied * _BFLOAT16,
        # The vocabulary, the current layer and the next layer
        gathered=sum(bytes_of[name] for name in found.lexical)
        + 2 / shape.layers * sum(bytes_of[matrix.name] for matrix in found.matrices),
        gradients=trained_bytes,
        # The sum over chunks in float32, and the gradient of one chunk in bfloat16
        head_gradient=head.numel() * (_FLOAT32 + _BFLOAT16) if is_head_trained else 0,
        optimiser=resident_bytes,
        activations=(_layer_activations(model, found, training) + AROUND_LAST_NORM * shape.width) * _BFLOAT16,
        logits=head.shape[0] * label_share * _BFLOAT16,
        workspace=MUON_WORKSPACE * max([min(MUON_CHUNK, sum(muon_sizes)), *muon_sizes]),
        is_recorded=not training.checkpoint_activations,
    )


@dataclass(frozen=True)
class _Counted:
    """The parameters of a model in a stage, counted in elements.

    Attributes:
        sizes: Number of elements of every parameter, by name.
        lexical: Names of the parameters that belong to the vocabulary.
        trained: Names of the trained parameters, including aliases of tied parameters, but no matrices with adapters.
        matrices: The matrices of the layers.
        adapted: The matrices that have an adapter.
        adapter_sizes: Number of elements of every parameter of an adapter.
        orthogonalised: The matrices that Muon trains.
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
        """Number of elements of all adapters."""
        return sum(self.adapter_sizes)

    @property
    def trained_parameters(self) -> list[str]:
        """Names of the trained parameters, without aliases."""
        return [name for name in self.sizes if name in self.trained]


def _count(model: PreTrainedModel, stage: Stage, training: Training) -> _Counted:
    """Count the parameters of a model, and those that a stage trains."""
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
    """Return the operations per token in the layers, by the rules at the head of this module."""
    inner = sum(matrix.used_numbers * (6 if matrix.name in found.trained else 4) for matrix in found.matrices)
    # QKᵀ and the sum over V take 4 · length · width forward and twice as much backward; causal attention takes half.
    by_position, shape = 12 if architecture_of(model) == "encoder" else 6, layer_sizes(model)
    attention = by_position * shape.layers * training.length * shape.width
    recomputed = 0.0
    if training.checkpoint_activations:  # another forward pass: a third of the operations of attention
        recomputed = 2 * sum(matrix.used_numbers for matrix in found.matrices) + attention / 3
    return inner + 6 * found.adapters + attention + recomputed


def _layer_activations(model: PreTrainedModel, found: _Counted, training: Training) -> int:
    """Return how many bfloat16 values per token the layers keep for the backward pass."""
    shape = layer_sizes(model)
    width, attended = shape.width, shape.heads * shape.head_width  # attended: the width of all attention heads together
    kept = sum(matrix.outputs * matrix.used for matrix in found.matrices) + shape.layers * attended
    with_gradient = [*found.adapted, *(matrix for matrix in found.matrices if matrix.name in found.trained)]
    if with_gradient:
        kept += _normalised(model, shape)
        # The last matrix of a feed-forward network is recognised by its input: it has neither of these two widths.
        ends = [each for each in with_gradient if each.outputs == width and each.inputs not in (width, attended)]
        kept += sum(matrix.inputs * matrix.used for matrix in ends)
        kept += len(found.adapted) * (training.lora_rank or 0)  # the outputs of A
    if training.checkpoint_activations:  # the inputs of all layers, and all activations of one layer
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
    """Return the bytes of the moments, with or without paged moments, and of the average of all trained parameters."""
    muon_bytes = sum(bytes_of[matrix.name] for matrix in found.orthogonalised)
    states = muon_bytes  # its momentum
    if training.average:
        states += trained_bytes
    if training.optimiser_state == FULL_STATE:
        moments = 3 if stage.optimiser == LOOKAHEAD else 2  # two moments of Adam; Lookahead adds slow weights
        return states + moments * (trained_bytes - muon_bytes)
    by_muon = {matrix.name for matrix in found.orthogonalised}
    numbers = [found.sizes[name] for name in found.trained_parameters if name not in by_muon]
    numbers += found.adapter_sizes
    return states + sum(_moment_bytes(size, training.optimiser_state, with_paged=with_paged) for size in numbers)


@dataclass(frozen=True)
class _Matrix:
    """A matrix [outputs × inputs] of a layer, or the stacked matrices of several experts.

    Attributes:
        name: Name of the parameter.
        outputs: Rows.
        inputs: Columns.
        count: Number of experts; 1 without experts.
        used: Number of experts that a token uses; 1 without experts.
        parts: Number of matrices into which Muon splits it, along the outputs.
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
    """Return the bytes of both moments of a parameter in bitsandbytes; paged moments may leave the GPU."""
    is_small = "8-bit" in state and numbers >= _QUANTISED_FROM
    is_paged = "paged" in state and numbers >= _PAGED_FROM
    moment = numbers * (1 if is_small else _FLOAT32)
    if is_paged and not with_paged:
        moment = 0
    if is_small:
        moment += -(-numbers // _BLOCK) * _FLOAT32  # the scale of each block, which is never paged
    return 2 * moment


def _normalised(model: PreTrainedModel, shape: LayerSizes) -> int:
    """Return the number of values per token that all norms in the layers return; a float32 value counts twice."""
    numbers, uses = 0, {"q": shape.heads, "k": shape.key_heads}
    for block in repeated_blocks(model):
        for path, module in block.named_modules():
            weight = getattr(module, "weight", None)
            if isinstance(weight, nn.Parameter) and weight.ndim == 1:
                # Norms of queries and keys (q_norm, key_layernorm, …) may share the weights of one head among all.
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
