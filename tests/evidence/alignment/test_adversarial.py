"""Adversarial training: discriminator, orthogonality, mutual neighbours, refinement."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.linalg import orthogonal_procrustes, polar

from relexify.evidence.alignment.unsupervised import adversarial
from relexify.evidence.alignment.unsupervised.adversarial import build_discriminator, keep_near_orthogonal, train_map
from relexify.evidence.alignment.unsupervised.options import AdversarialTraining
from relexify.evidence.alignment.unsupervised.spaces import mutual_neighbours, prepare_space, random_rotation, refine
from relexify.evidence.lexicon.retrieval import csls_nearest
from tests.evidence.alignment.clouds import cloud, turned

SMALL = AdversarialTraining(epochs=2, steps=20, batch=16, hidden=16)


def tensors(*clouds: np.ndarray) -> list[torch.Tensor]:
    return [prepare_space(rows, AdversarialTraining(), "cpu") for rows in clouds]


def always_improving() -> Callable[[torch.Tensor], float]:
    scores = iter(range(10))
    return lambda matrix: float(next(scores))


def error_of_orthogonality(matrix: torch.Tensor) -> float:
    return float((matrix.T @ matrix - torch.eye(len(matrix))).abs().max())


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.5])
def test_dropout_keeps_the_mean_of_the_vectors(rate):
    vectors = torch.full((400, 50), 2.0)
    dropped = adversarial._drop_out(vectors, rate, torch.Generator().manual_seed(0))
    assert float(dropped.mean()) == pytest.approx(2, rel=0.03)
    assert float((dropped == 0).double().mean()) == pytest.approx(rate, abs=0.02)


def test_the_discriminator_has_two_hidden_layers_with_leaky_relu():
    discriminator = build_discriminator(5, 7, 0.2, torch.Generator().manual_seed(0))
    assert [tuple(weight.shape) for weight in discriminator.weights] == [(5, 7), (7, 7), (7, 1)]
    vectors = torch.randn(3, 5, generator=torch.Generator().manual_seed(1))
    first, second, third = discriminator.weights
    hidden = vectors @ first + discriminator.biases[0]
    hidden = torch.where(hidden > 0, hidden, 0.2 * hidden) @ second + discriminator.biases[1]
    expected = torch.where(hidden > 0, hidden, 0.2 * hidden) @ third + discriminator.biases[2]
    assert torch.allclose(discriminator(vectors), expected[:, 0], atol=1e-6)


def test_a_step_descends_both_equations_of_the_paper_with_smoothed_labels():
    source, target = tensors(cloud(60, 4, 0), cloud(60, 4, 1))
    options = replace(SMALL, batch=8, discriminator_steps=1, dropout=0.0, smoothing=0.2, beta=0.0)
    discriminator = build_discriminator(4, 16, 0.2, torch.Generator().manual_seed(0))
    matrix = torch.eye(4).requires_grad_()
    expected = [part.detach().clone().requires_grad_() for part in (*discriminator.parameters, matrix)]
    adversarial._step(discriminator, matrix, source, target, 0.5, options, torch.Generator().manual_seed(1))

    draws = torch.Generator().manual_seed(1)
    mapped, real, again = (rows[torch.randint(60, (8,), generator=draws)] for rows in (source, target, source))
    *parameters, own_matrix = expected
    copied = replace(discriminator, weights=tuple(parameters[:3]), biases=tuple(parameters[3:]))

    def nats(vectors: torch.Tensor, label: float) -> torch.Tensor:
        """Return the mean cross entropy of the label, the probability of the target space."""
        probability = copied(vectors).sigmoid()
        return -(label * probability.log() + (1 - label) * (1 - probability).log()).mean()

    def descend(loss: torch.Tensor, parts: list[torch.Tensor]) -> None:
        for part, gradient in zip(parts, torch.autograd.grad(loss, parts), strict=True):
            part.data -= 0.5 * gradient

    descend((nats(mapped @ own_matrix.detach(), 0.2) + nats(real, 0.8)) / 2, parameters)  # Eq. 1
    descend(nats(again @ own_matrix, 0.8), [own_matrix])  # Eq. 2
    for part, wanted in zip((*discriminator.parameters, matrix), expected, strict=True):
        assert torch.allclose(part, wanted, atol=1e-6)


def test_orthogonalise_pulls_a_map_towards_orthogonal_ones_and_keeps_those():
    rotation = torch.from_numpy(random_rotation(6, np.random.default_rng(0)))
    assert torch.allclose(keep_near_orthogonal(rotation, 0.01), rotation)
    bent = matrix = rotation + 0.2 * torch.randn(6, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for _ in range(500):
        matrix = keep_near_orthogonal(matrix, 0.01)
    identity = torch.eye(6, dtype=torch.float64)
    assert (matrix.T @ matrix - identity).abs().max() < 1e-3 < (bent.T @ bent - identity).abs().max()


def test_training_with_beta_stays_closer_to_orthogonal_maps_than_without():
    source, target = tensors(cloud(200, 6, 0), cloud(200, 6, 1))
    errors = []
    for beta in (0.1, 0.0):
        options = replace(SMALL, beta=beta, steps=100)
        trained = train_map(
            source,
            target,
            torch.eye(6),
            options,
            always_improving(),
            generator=torch.Generator().manual_seed(0),
            advance=lambda steps: None,
        )
        errors.append(error_of_orthogonality(trained))
    assert 0 < errors[0] < 0.2 < errors[1]


def test_training_that_never_improves_returns_the_start():
    source, target = tensors(cloud(200, 6, 0), cloud(200, 6, 1))
    start = torch.eye(6)
    generator = torch.Generator().manual_seed(0)
    assert torch.equal(
        train_map(source, target, start, SMALL, lambda matrix: 0.0, generator=generator, advance=lambda steps: None),
        start,
    )


def test_training_that_diverges_continues_from_its_best_map():
    source, target = tensors(cloud(200, 6, 0), cloud(200, 6, 1))
    wild = AdversarialTraining(epochs=3, steps=20, batch=16, hidden=16, learning_rate=1e9)
    generator = torch.Generator().manual_seed(0)
    trained = train_map(
        source, target, torch.eye(6), wild, lambda matrix: 0.0, generator=generator, advance=lambda steps: None
    )
    assert torch.isfinite(trained).all()


def test_training_does_not_change_the_global_random_state():
    source, target = tensors(cloud(100, 4, 0), cloud(100, 4, 1))
    before = torch.get_rng_state()
    generator = torch.Generator().manual_seed(0)
    train_map(source, target, torch.eye(4), SMALL, lambda matrix: 0.0, generator=generator, advance=lambda steps: None)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("cells", [1 << 24, 500])
def test_mutual_neighbours_are_nearest_by_csls_in_both_directions(monkeypatch, cells):
    monkeypatch.setattr("relexify.evidence.alignment.unsupervised.spaces.BLOCK_CELLS", cells)
    source, target = cloud(120, 5, 0).astype(np.float32), cloud(90, 5, 1).astype(np.float32)
    there, back = csls_nearest(source, target, source, k=7), csls_nearest(target, source, target, k=7)
    expected = [(row, int(there[row])) for row in range(120) if back[there[row]] == row]
    found = mutual_neighbours(torch.from_numpy(source), torch.from_numpy(target), 7)
    assert list(zip(found.source.tolist(), found.target.tolist(), strict=True)) == expected
    assert found.share == pytest.approx(len(expected) / 120)
    left, right = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (source, target))
    cosines = left @ right.T
    by_row, by_column = np.sort(cosines, axis=1)[:, -7:].mean(axis=1), np.sort(cosines, axis=0)[-7:].mean(axis=0)
    assert found.mean == pytest.approx(np.mean([2 * cosines[i, j] - by_row[i] - by_column[j] for i, j in expected]))
    assert found.cosine == pytest.approx(np.mean([cosines[i, j] for i, j in expected]))


def test_refinement_repairs_a_nearly_right_map_and_is_orthogonal():
    source, target, truth = turned(400, 8, 0)
    left, right = tensors(source, target)
    right_one, _ = orthogonal_procrustes(left.double().numpy(), right.double().numpy()[truth])
    bent, _ = polar(right_one + 0.4 * np.random.default_rng(0).normal(size=(8, 8)) / np.sqrt(8))
    before = mutual_neighbours(left @ torch.from_numpy(bent).float(), right)
    matrix, after = refine(left, right, bent, rounds=10)
    assert after.closeness > before.closeness
    assert np.allclose(matrix.T @ matrix, np.eye(8), atol=1e-9)
    assert np.mean(truth[after.source] == after.target) > 0.95


@pytest.mark.parametrize("seed", range(5))
def test_refinement_never_makes_a_map_worse(seed):
    left, right = tensors(cloud(200, 6, seed), cloud(200, 6, seed + 10))
    start = random_rotation(6, np.random.default_rng(seed))
    before = mutual_neighbours(left @ torch.from_numpy(start).float(), right)
    matrix, after = refine(left, right, start, rounds=5)
    assert after.closeness >= before.closeness
    assert (after.closeness == before.closeness) == np.array_equal(matrix, start)
