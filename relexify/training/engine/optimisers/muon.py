"""Muon for inner matrices and AdamW for all other parameters, as one optimiser.

Muon (Jordan et al., 2024) replaces the momentum M = U S Vᵀ of a matrix by U Vᵀ, its nearest orthogonal matrix, so that
a step changes all directions by about the same amount. U Vᵀ is approximated with matrix products alone, by iterated
polynomials. The update is scaled by 0.2 √max(rows, columns), which gives it the root mean square of an update of AdamW
(Liu et al., 2025), and weight decay is decoupled:

    M ← μ M + (1 − μ) G,    W ← (1 − η λ) W − η · 0.2 √max(rows, columns) · orthogonalise(μ M + (1 − μ) G)

Matrices of one shape are orthogonalised in one batch. On a GPU this is done in bfloat16, which suffices: the singular
values need not be exactly 1. Half of the time of a step is spent reading and writing, so tall matrices are not
transposed, and no product has a summand of its own size, which would be copied first. If parameters are sharded (FSDP),
the matrices of one shape are divided among the processes.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch.distributed.tensor import DTensor, Placement, Shard
from torch.optim.adamw import adamw

__all__ = ["GROUP_OPTIONS", "Muon", "MuonAdamW", "orthogonalise"]

POLYNOMIALS = (
    (8.2632, -23.5042, 16.7541),
    (4.0370, -2.8877, 0.5216),
    (3.6701, -2.6410, 0.4953),
    (2.7932, -2.0150, 0.4298),
)
"""a, b and c of p(x) = a x + b x³ + c x⁵, which are applied to all singular values one after the other. Each stays as
close to 1 as possible on the values that the one before can yield, as in Polar Express (Amsel et al., 2025). The first
is for values from 0.002 to 1, which end between 0.65 and 1.35. Each interval is extended by 2 % at its upper end: the
polynomials grow fast beyond it, and rounding to bfloat16 enlarges some values."""
RMS_OF_ADAM = 0.2
"""Usual root mean square of an update of AdamW before the learning rate."""
SMALLEST = 1e-7
CHUNK = 2**27
"""Numbers in the matrices that are orthogonalised at once, unless a single parameter has more."""
WORKSPACE = 14
"""Bytes on a GPU for each of them: the direction in float32; in bfloat16 its copy, the scaled copy and a product, and,
of a square matrix, as many for its square and the polynomial."""

GROUP_OPTIONS = {"muon": False, "transposed": False, "parts": 1, "momentum": 0.9}
"""Options that a group of parameters has besides those of AdamW, as `MuonAdamW` describes them."""

Group = dict[str, Any]


class Muon(torch.optim.Optimizer):
    """The step of Muon, for optimisers that update all other groups of parameters themselves."""

    def _muon_step(self, group: Group) -> None:
        for trained in _chunks(group["params"]):
            for parameter in trained:
                if "momentum" not in self.state[parameter]:
                    self.state[parameter]["momentum"] = torch.zeros_like(parameter)
            # Elementwise on the shards of this process: not every torch has all of these operations for DTensors.
            weights = [_local(parameter) for parameter in trained]
            momenta = [_local(self.state[parameter]["momentum"]) for parameter in trained]
            gradients = [_local(parameter.grad) for parameter in trained if parameter.grad is not None]
            torch._foreach_lerp_(momenta, gradients, 1 - group["momentum"])
            # The momentum one step ahead (Nesterov), as new tensors
            changes = list(torch._foreach_lerp(gradients, momenta, group["momentum"]))
            decay = group["weight_decay"]
            # W − η (λ W + O) lies between W and −O / λ: one pass over the weights instead of two.
            scale = -RMS_OF_ADAM / decay if decay else -RMS_OF_ADAM
            if isinstance(trained[0], DTensor):
                changes = _orthogonalised_shards(changes, trained[0], group, scale)
            else:
                _orthogonalise_in_place(changes, group, scale)
            if decay:
                torch._foreach_lerp_(weights, changes, group["lr"] * decay)
            else:
                torch._foreach_add_(weights, changes, alpha=group["lr"])


class MuonAdamW(Muon):
    """Muon for groups with `"muon": True`, and AdamW for all others.

    Args:
        groups: Parameters and their options. Besides those below, a group has `lr` and may have `weight_decay`. A Muon
            group contains matrices [rows × columns], or batches of them [experts × rows × columns], and may have
            `transposed` (stored as inputs × outputs, like the `Conv1D` of transformers) and `parts` (number of equal
            parts along the outputs that are matrices of their own, such as query, key and value).
        lr: Learning rate of groups without one.
        weight_decay: Weight decay of groups without one.
        momentum: μ of Muon.
        betas: β1 and β2 of AdamW.
        eps: ε of AdamW.
    """

    def __init__(
        self,
        groups: Iterable[Group],
        *,
        lr: float = 1e-3,
        weight_decay: float = 0.0,
        momentum: float = 0.9,
        betas: tuple[float, float] = (0.9, 0.98),
        eps: float = 1e-6,
    ) -> None:
        defaults = {
            **GROUP_OPTIONS,
            "lr": lr,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "betas": betas,
            "eps": eps,
            "fused": True,  # lets `load_state_dict` move step counts to the device of their parameters
        }
        super().__init__(groups, defaults)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Take one step with all parameters that have a gradient."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            if group["muon"]:
                self._muon_step(group)
            else:
                self._adam_step(group)
        return loss

    def _adam_step(self, group: Group) -> None:
        trained = [parameter for parameter in group["params"] if parameter.grad is not None]
        for parameter in trained:
            if not self.state[parameter]:
                self.state[parameter] = {
                    "step": torch.zeros((), device=parameter.device),
                    "exp_avg": torch.zeros_like(parameter),
                    "exp_avg_sq": torch.zeros_like(parameter),
                }
        states = [self.state[parameter] for parameter in trained]
        adamw(
            trained,
            [parameter.grad for parameter in trained],
            [state["exp_avg"] for state in states],
            [state["exp_avg_sq"] for state in states],
            [],
            [state["step"] for state in states],
            fused=True,
            amsgrad=False,
            beta1=group["betas"][0],
            beta2=group["betas"][1],
            lr=group["lr"],
            weight_decay=group["weight_decay"],
            eps=group["eps"],
            maximize=False,
        )


def orthogonalise(matrices: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
    """Return matrices with the same singular vectors and singular values of about 1, times a scale.

    Singular values below 0.002 of the Frobenius norm stay smaller. A matrix of zeros stays one.

    Args:
        matrices: [n × rows × columns], of any type of number.
        scale: Factor of the result.
    """
    at_least = torch.promote_types(matrices.dtype, torch.float32)
    norms = torch.linalg.vector_norm(matrices, dim=(1, 2), keepdim=True, dtype=at_least)
    x: torch.Tensor = matrices / norms.clamp(min=SMALLEST).to(matrices.dtype)
    is_tall = x.shape[1] > x.shape[2]
    for number, (a, b, c) in enumerate(POLYNOMIALS, start=1):
        factor = scale if number == len(POLYNOMIALS) else 1.0
        squares = x.mT @ x if is_tall else x @ x.mT
        # (a I + b A + c A²) X with A = X Xᵀ, or from the right with A = Xᵀ X; A has the smaller of both sizes
        polynomial = torch.baddbmm(squares, squares, squares, beta=factor * b, alpha=factor * c)
        polynomial.diagonal(dim1=1, dim2=2).add_(factor * a)
        x = x @ polynomial if is_tall else polynomial @ x
    return x


def _chunks(parameters: Iterable[torch.Tensor]) -> Iterator[list[torch.Tensor]]:
    """Yield the parameters that have a gradient in chunks of bounded size, each of one shape and sharding."""
    by_kind: defaultdict[tuple[torch.Size, object], list[torch.Tensor]] = defaultdict(list)
    for parameter in parameters:
        if parameter.grad is not None:
            sharding = (parameter.device_mesh, parameter.placements) if isinstance(parameter, DTensor) else None
            by_kind[parameter.shape, sharding].append(parameter)
    for same in by_kind.values():
        size = max(1, CHUNK // same[0].numel())
        for start in range(0, len(same), size):
            yield same[start : start + size]


def _matrices(tensor: torch.Tensor, group: Group) -> list[torch.Tensor]:
    """Return the matrices in a tensor with the shape of a parameter, as views of it."""
    outputs = -1 if group["transposed"] else -2
    return [
        matrix
        for part in tensor.chunk(group["parts"], dim=outputs)
        for matrix in (part.unbind() if part.ndim > 2 else (part,))
    ]


def _orthogonalise_in_place(directions: Sequence[torch.Tensor], group: Group, scale: float) -> None:
    """Make matrices orthogonal, with a given root mean square, in one batch per shape.

    Args:
        directions: Tensors with the shape of a parameter, which contain the matrices.
        group: Options of the parameters.
        scale: The root mean square; if negative, the matrices are negated.
    """
    by_shape: defaultdict[torch.Size, list[torch.Tensor]] = defaultdict(list)
    for direction in directions:
        for matrix in _matrices(direction, group):
            by_shape[matrix.shape].append(matrix)
    for shape, own in by_shape.items():
        kind = torch.bfloat16 if own[0].is_cuda else own[0].dtype
        batch = torch.empty(len(own), *shape, dtype=kind, device=own[0].device)
        torch._foreach_copy_(batch.unbind(), own)
        torch._foreach_copy_(own, orthogonalise(batch, scale * math.sqrt(max(shape))).unbind())


def _local(tensor: torch.Tensor) -> torch.Tensor:
    """Return the shard of this process, or the tensor itself if it is not sharded."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def _orthogonalised_shards(
    directions: Sequence[torch.Tensor], like: DTensor, group: Group, scale: float
) -> list[torch.Tensor]:
    """Return the shards of directions with orthogonal matrices.

    Processes exchange their shards of all directions for some directions as a whole, and back: each orthogonalises its
    share, and two exchanges communicate less than gathering every direction in every process.

    Args:
        directions: The shards of this process.
        like: A parameter with their shape and sharding.
        group: Options of the parameters.
        scale: As for `_orthogonalise_in_place`.
    """
    shape = torch.Size((len(directions), *like.shape))

    def placements(shard: Callable[[Shard], Shard]) -> list[Placement]:
        return [shard(each) if isinstance(each, Shard) else each for each in like.placements]

    parts = placements(lambda each: Shard(each.dim + 1))
    stride = torch.empty(shape, device="meta").stride()
    stacked = torch.stack(list(directions))
    shards = DTensor.from_local(stacked, like.device_mesh, parts, run_check=False, shape=shape, stride=stride)
    wholes = shards.redistribute(placements=placements(lambda each: Shard(0)))
    _orthogonalise_in_place(wholes.to_local().unbind(), group, scale)
    return list(wholes.redistribute(placements=parts).to_local().unbind())
