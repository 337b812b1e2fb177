"""Muon and AdamW in one optimiser: orthogonal updates in batches, and AdamW as torch has it."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard, distribute_tensor

from relexify.training.engine.optimisers import muon
from relexify.training.engine.optimisers.muon import POLYNOMIALS, RMS_OF_ADAM, MuonAdamW, orthogonalise
from tests.processes import in_two_processes


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_the_polynomials_bring_singular_values_near_one():
    values = torch.logspace(-2.5, 0, 200, dtype=torch.float64)
    for a, b, c in POLYNOMIALS:
        values = a * values + b * values**3 + c * values**5
    assert values.min() > 0.65
    assert values.max() < 1.35


def test_rounding_does_not_let_singular_values_diverge():
    signs = random(20_000).sign().double()
    values = torch.linspace(0.002, 1, 20_000, dtype=torch.float64) * (1 + 0.01 * signs)
    for a, b, c in POLYNOMIALS:
        values = (a * values + b * values**3 + c * values**5) * (1 + 0.01 * signs)
    assert values.min() > 0.6
    assert values.max() < 1.4


@pytest.mark.parametrize("shape", [(3, 8, 8), (2, 8, 20), (2, 20, 8), (1, 1, 5)])
def test_orthogonalise_keeps_singular_vectors_and_brings_singular_values_to_one(shape):
    matrices = random(*shape)
    left, _, right = torch.linalg.svd(matrices, full_matrices=False)
    diagonal = left.mT @ orthogonalise(matrices) @ right.mT
    values = diagonal.diagonal(dim1=1, dim2=2)
    assert (diagonal - torch.diag_embed(values)).abs().max() < 1e-4
    assert values.min() > 0.65
    assert values.max() < 1.35


def test_orthogonalise_does_not_depend_on_the_size_and_keeps_zeros():
    matrices = random(2, 6, 9)
    assert torch.allclose(orthogonalise(1e-4 * matrices), orthogonalise(matrices), atol=1e-5)
    assert torch.allclose(orthogonalise(matrices, 3.0), 3 * orthogonalise(matrices), atol=1e-5)
    assert not orthogonalise(torch.zeros(1, 3, 4)).any()


def stepped(shapes: list[tuple[int, ...]], steps: int = 3, **group: object) -> list[torch.Tensor]:
    """Parameters after some steps of Muon; each has gradients of its own seed."""
    parameters = [torch.nn.Parameter(random(*shape, seed=seed)) for seed, shape in enumerate(shapes)]
    optimiser = MuonAdamW([{"params": parameters, "lr": 0.1, "muon": True, **group}])
    for step in range(steps):
        for seed, parameter in enumerate(parameters):
            parameter.grad = random(*parameter.shape, seed=100 * step + seed)
        optimiser.step()
    return [parameter.detach() for parameter in parameters]


def test_matrices_of_double_precision_are_orthogonalised_in_it():
    matrices = torch.randn(2, 3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    found = orthogonalise(matrices)
    assert found.dtype == torch.float64
    assert torch.allclose(found.float(), orthogonalise(matrices.float()), atol=1e-4)


def test_a_step_is_that_of_the_equation():
    shape, steps, rate, decay, momentum = (6, 10), 3, 0.1, 0.3, 0.9
    (found,) = stepped([shape], steps, weight_decay=decay)
    weight, mean = random(*shape), torch.zeros(shape)
    for step in range(steps):
        gradient = random(*shape, seed=100 * step)
        mean = momentum * mean + (1 - momentum) * gradient
        update = orthogonalise((momentum * mean + (1 - momentum) * gradient)[None])[0]
        weight = (1 - rate * decay) * weight - rate * RMS_OF_ADAM * math.sqrt(10) * update
    torch.testing.assert_close(found, weight, rtol=1e-4, atol=1e-5)


def test_matrices_in_a_batch_are_trained_as_each_alone():
    shapes = [(6, 10), (10, 6), (6, 10), (4, 4), (2, 6, 10)]
    together = stepped(shapes)
    for seed, shape in enumerate(shapes):
        parameter = torch.nn.Parameter(random(*shape, seed=seed))
        alone = MuonAdamW([{"params": [parameter], "lr": 0.1, "muon": True}])
        for step in range(3):
            parameter.grad = random(*shape, seed=100 * step + seed)
            alone.step()
        torch.testing.assert_close(parameter.detach(), together[seed], rtol=1e-4, atol=1e-5)


def test_experts_and_parts_are_matrices_of_their_own():
    (experts,) = stepped([(3, 4, 8)])
    (parts,) = stepped([(12, 8)], parts=3)
    weight, gradient = random(3, 4, 8), random(3, 4, 8)
    one_step = [
        weight[index] - 0.1 * RMS_OF_ADAM * math.sqrt(8) * orthogonalise(gradient[index : index + 1])[0]
        for index in range(3)
    ]
    torch.testing.assert_close(stepped([(3, 4, 8)], 1)[0], torch.stack(one_step), rtol=1e-4, atol=1e-5)
    # The same random numbers in another shape.
    torch.testing.assert_close(parts.unflatten(0, (3, 4)), experts, rtol=1e-4, atol=1e-5)


def test_a_transposed_parameter_is_trained_as_its_transpose():
    weight = random(8, 12)
    plain, stored = torch.nn.Parameter(weight.mT.clone()), torch.nn.Parameter(weight.clone())
    optimisers = [
        MuonAdamW([{"params": [plain], "lr": 0.1, "muon": True, "parts": 3}]),
        MuonAdamW([{"params": [stored], "lr": 0.1, "muon": True, "parts": 3, "transposed": True}]),
    ]
    for step in range(3):
        stored.grad = random(8, 12, seed=step + 1)
        plain.grad = stored.grad.mT.clone()
        for optimiser in optimisers:
            optimiser.step()
    torch.testing.assert_close(stored.detach().mT, plain.detach(), rtol=1e-4, atol=1e-5)


def test_other_groups_are_trained_by_adamw():
    ours, theirs = ([torch.nn.Parameter(random(5, 3)), torch.nn.Parameter(random(4))] for _ in range(2))
    groups = [
        ({"params": [one], "lr": rate, "weight_decay": 0.1}, rate) for one, rate in zip(ours, (0.1, 0.2), strict=True)
    ]
    optimiser = MuonAdamW([group for group, _ in groups], betas=(0.8, 0.9), eps=1e-5)
    oracle = torch.optim.AdamW(
        [{"params": [one], "lr": rate} for one, (_, rate) in zip(theirs, groups, strict=True)],
        betas=(0.8, 0.9),
        eps=1e-5,
        weight_decay=0.1,
        fused=True,
    )
    for step in range(4):
        for seed, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            one.grad = random(*one.shape, seed=10 * step + seed)
            other.grad = one.grad.clone()
        optimiser.step()
        oracle.step()
    assert all(torch.equal(one, other) for one, other in zip(ours, theirs, strict=True))


def test_a_restored_state_continues_bit_for_bit():
    def make() -> tuple[list[torch.nn.Parameter], MuonAdamW]:
        parameters = [torch.nn.Parameter(random(*shape)) for shape in ((4, 6), (3, 4, 5), (7,), (5, 2))]
        groups = [
            {"params": parameters[:2], "lr": 0.1, "muon": True},
            {"params": parameters[2:], "lr": 0.1},
        ]
        return parameters, MuonAdamW(groups)

    def train(parameters: list[torch.nn.Parameter], optimiser: MuonAdamW, steps: range) -> None:
        for step in steps:
            for parameter in parameters:
                parameter.grad = random(*parameter.shape, seed=step)
            optimiser.step()

    parameters, optimiser = make()
    train(parameters, optimiser, range(3))
    others, resumed = make()
    with torch.no_grad():
        for parameter, other in zip(parameters, others, strict=True):
            other.copy_(parameter)
    resumed.load_state_dict(copy.deepcopy(optimiser.state_dict()))
    train(parameters, optimiser, range(3, 6))
    train(others, resumed, range(3, 6))
    assert all(torch.equal(one, other) for one, other in zip(parameters, others, strict=True))


def test_parameters_without_a_gradient_stay_as_they_are():
    trained, still = torch.nn.Parameter(random(4, 6)), torch.nn.Parameter(random(4, 6))
    optimiser = MuonAdamW([{"params": [trained, still], "lr": 0.1, "muon": True, "weight_decay": 0.1}, {"params": []}])
    trained.grad = random(4, 6)
    optimiser.step()
    assert torch.equal(still, random(4, 6))
    assert not torch.equal(trained, random(4, 6))


def test_a_restored_state_is_on_the_device_of_the_parameters():
    # On a GPU, the Trainer loads the state to the CPU first, and fused AdamW needs its step counts on the GPU.
    saved = torch.nn.Parameter(random(4))
    optimiser = MuonAdamW([{"params": [saved], "lr": 0.1}])
    saved.grad = random(4)
    optimiser.step()
    elsewhere = torch.nn.Parameter(torch.zeros(4, device="meta"))
    restored = MuonAdamW([{"params": [elsewhere], "lr": 0.1}])
    restored.load_state_dict(optimiser.state_dict())
    assert {value.device.type for value in restored.state[elsewhere].values()} == {"meta"}


def test_chunks_are_bounded_and_change_nothing(monkeypatch):
    shapes = [(6, 10), (10, 6), (6, 10), (4, 4), (2, 6, 10)]
    whole = stepped(shapes)
    monkeypatch.setattr("relexify.training.engine.optimisers.muon.CHUNK", 60)
    for found, expected in zip(stepped(shapes), whole, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


SHAPES = [(6, 10), (5, 4), (6, 10), (6, 10), (2, 6, 10), (6, 10)]
WHOLE = 5
"""Number of the one that is not sharded."""


def step_sharded(expected: list[torch.Tensor]) -> None:
    """Train parameters, most of them sharded over the processes; compare them and the number of matrices per process.

    On CPUs, torch gathers all shards instead of exchanging them, so this does not test the exchange itself.
    """
    mesh = init_device_mesh("cpu", (2,))
    counts = []

    def placed(tensor: torch.Tensor, number: int) -> torch.Tensor:
        return tensor if number == WHOLE else distribute_tensor(tensor, mesh, [Shard(0)])

    def counted(matrices: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
        counts.append(len(matrices))
        return orthogonalise(matrices, scale)

    muon.orthogonalise = counted
    parameters = [torch.nn.Parameter(placed(random(*shape, seed=seed), seed)) for seed, shape in enumerate(SHAPES)]
    optimiser = MuonAdamW([{"params": parameters, "lr": 0.1, "muon": True, "weight_decay": 0.3}])
    for step in range(3):
        for seed, parameter in enumerate(parameters):
            parameter.grad = placed(random(*parameter.shape, seed=100 * step + seed), seed)
        optimiser.step()
    for number, (parameter, one) in enumerate(zip(parameters, expected, strict=True)):
        assert isinstance(parameter.data, DTensor) == (number != WHOLE)
        found = parameter.data.full_tensor() if isinstance(parameter.data, DTensor) else parameter.data
        torch.testing.assert_close(found, one, rtol=1e-4, atol=1e-5)
    # Of three, one and a batch of two, the first process has two, one and all; the second has one, none and none. Both
    # have the matrix that is not sharded.
    assert sum(counts) == 3 * ([6, 2][torch.distributed.get_rank()])


def test_processes_divide_the_matrices_of_sharded_parameters_and_train_as_one():
    assert in_two_processes(step_sharded, stepped(SHAPES, weight_decay=0.3)) == 0
