"""Muon for inner matrices and AdamW for all other parameters, as one optimiser.

Muon (Jordan et al., 2024) replaces the momentum M = U S Vᵀ of a matrix by U Vᵀ, its nearest orthogonal matrix, so that
a step changes all directions by about the same amount. U Vᵀ is approximated with matrix products alone, by iterating a
polynomial (Newton–Schulz). The update is scaled by 0.2 √max(rows, columns), which gives it the root mean
square of an update of AdamW (Liu et al., 2025), and weight decay is decoupled:

    M ← μ M + (1 − μ) G,    W ← (1 − η λ) W − η · 0.2 √max(rows, columns) · orthogonalise(μ M + (1 − μ) G)

Matrices of one shape are orthogonalised in one batch. On a GPU this is done in bfloat16, which suffices: the singular
values need not be exactly 1.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.distributed.tensor import DTensor, Replicate
from torch.optim.adamw import adamw

__all__ = ["MuonAdamW", "orthogonalise"]

POLYNOMIAL = (3.4445, -4.7750, 2.0315)
"""a, b and c of p(x) = a x + b x³ + c x⁵, which is applied to all singular values (Jordan et al., 2024). They end
between 0.7 and 1.2. The more exact polynomials of Polar Express (Amsel et al., 2025) scored slightly worse in a few
runs with one seed. They enlarge the smallest singular values twice as much; whether that is the reason was not
tested."""
ITERATIONS = 5
RMS_OF_ADAM = 0.2
"""Usual root mean square of an update of AdamW before the learning rate."""
SMALLEST = 1e-7
CHUNK = 2**27
"""Numbers in the matrices that are orthogonalised at once, unless a single parameter has more: their copies take about
five times as much memory as they do."""

Group = dict[str, Any]


class MuonAdamW(torch.optim.Optimizer):
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
        compiled: Compile the orthogonalisation.
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
        compiled: bool = False,
    ) -> None:
        defaults = {
            "lr": lr,
            "weight_decay": weight_decay,
            "muon": False,
            "transposed": False,
            "parts": 1,
            "momentum": momentum,
            "betas": betas,
            "eps": eps,
            "fused": True,  # lets `load_state_dict` move step counts to the device of their parameters
        }
        super().__init__(groups, defaults)
        self._orthogonalise: Callable[..., torch.Tensor] = (
            torch.compile(orthogonalise, dynamic=False) if compiled else orthogonalise
        )

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Take one step with all parameters that have a gradient."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            if not group["muon"]:
                self._adam_step(group)
        self._muon_step([group for group in self.param_groups if group["muon"]])
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

    def _muon_step(self, groups: Sequence[Group]) -> None:
        for chunk in _chunks(groups):
            matrices = [_matrices(each, group) for group, own in chunk for each in self._directions(group, own)]
            updates = iter(_in_batches(matrices, self._orthogonalise))
            for group, own in chunk:
                changes = [self._update(parameter, next(updates), group) for parameter in own]
                if group["weight_decay"]:
                    torch._foreach_mul_(own, 1 - group["lr"] * group["weight_decay"])
                torch._foreach_add_(own, changes, alpha=-group["lr"])

    def _directions(self, group: Group, trained: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Update the momentum of a group's parameters, and return it one step ahead (Nesterov)."""
        for parameter in trained:
            if "momentum" not in self.state[parameter]:
                self.state[parameter]["momentum"] = torch.zeros_like(parameter)
        momenta = [self.state[parameter]["momentum"] for parameter in trained]
        gradients = [parameter.grad for parameter in trained if parameter.grad is not None]
        torch._foreach_lerp_(momenta, gradients, 1 - group["momentum"])
        return list(torch._foreach_lerp(gradients, momenta, group["momentum"]))

    def _update(self, parameter: torch.Tensor, matrices: torch.Tensor, group: Group) -> torch.Tensor:
        """Return the update of a parameter, in its shape, from its orthogonalised matrices [n × outputs × inputs]."""
        shape = parameter.mT.shape if group["transposed"] else parameter.shape
        update = matrices.reshape(shape)
        update = update.mT.contiguous() if group["transposed"] else update
        if isinstance(parameter, DTensor):
            # Every process has computed the whole update, so each takes its own part of it without communication.
            whole = DTensor.from_local(update, parameter.device_mesh, [Replicate()] * parameter.device_mesh.ndim)
            return whole.redistribute(placements=parameter.placements)
        return update


def orthogonalise(matrices: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
    """Return matrices with the same singular vectors and singular values of about 1, times a scale.

    Singular values below 0.002 of the Frobenius norm stay smaller. A matrix of zeros stays one.

    Args:
        matrices: [n × rows × columns] with rows ≤ columns; computed in bfloat16 on a GPU, else as they are.
        scale: Factor of the result.
    """
    x = matrices.bfloat16() if matrices.is_cuda else matrices
    norms = torch.linalg.vector_norm(matrices, dim=(1, 2), keepdim=True)
    x = x / norms.clamp(min=SMALLEST).to(x.dtype)
    a, b, c = POLYNOMIAL
    for number in range(ITERATIONS):
        factor = scale if number == ITERATIONS - 1 else 1.0
        squares = x @ x.mT
        # (b A + c A²) X + a X with A = X Xᵀ, each product with its sum in one call
        inner = torch.baddbmm(squares, squares, squares, beta=factor * b, alpha=factor * c)
        x = torch.baddbmm(x, inner, x, beta=factor * a)
    return x.to(matrices.dtype)


def _chunks(groups: Sequence[Group]) -> Iterator[list[tuple[Group, list[torch.Tensor]]]]:
    """Yield the parameters that have a gradient, those of one shape together, in chunks of bounded size."""
    by_shape: defaultdict[tuple[int, ...], list[tuple[int, torch.Tensor]]] = defaultdict(list)
    for number, group in enumerate(groups):
        for parameter in group["params"]:
            if parameter.grad is not None:
                by_shape[tuple(sorted(parameter.shape))].append((number, parameter))
    for members in by_shape.values():
        size = max(1, CHUNK // members[0][1].numel())
        for start in range(0, len(members), size):
            own: defaultdict[int, list[torch.Tensor]] = defaultdict(list)
            for number, parameter in members[start : start + size]:
                own[number].append(parameter)
            yield [(groups[number], parameters) for number, parameters in own.items()]


def _matrices(tensor: torch.Tensor, group: Mapping[str, Any]) -> torch.Tensor:
    """Return a parameter-shaped tensor as matrices [n × outputs × inputs]; a distributed one is gathered."""
    whole = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
    rows = whole.mT if group["transposed"] else whole
    return rows.reshape(-1, rows.shape[-2] // group["parts"], rows.shape[-1])


def _in_batches(
    matrices: Sequence[torch.Tensor], orthogonalise: Callable[[torch.Tensor, float], torch.Tensor]
) -> list[torch.Tensor]:
    """Orthogonalise batches [n × rows × columns] in as few calls as there are shapes; tall ones are transposed.

    The results are contiguous, because the `_foreach_` functions handle other tensors one by one.
    """
    by_shape: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    for index, each in enumerate(matrices):
        rows, columns = each.shape[1:]
        by_shape[min(rows, columns), max(rows, columns)].append(index)
    found: dict[int, torch.Tensor] = {}
    for (rows, columns), indices in by_shape.items():
        wide = [index for index in indices if matrices[index].shape[1] == rows]
        tall = [index for index in indices if matrices[index].shape[1] != rows]
        stacked = torch.cat([*(matrices[index] for index in wide), *(matrices[index].mT for index in tall)])
        result = orthogonalise(stacked, RMS_OF_ADAM * math.sqrt(columns))
        count = sum(len(matrices[index]) for index in wide)
        for part, members in ((result[:count], wide), (result[count:].mT.contiguous(), tall)):
            sizes = [len(matrices[index]) for index in members]
            found.update(zip(members, torch.split_with_sizes(part, sizes), strict=True))
    return [found[index] for index in range(len(matrices))]
