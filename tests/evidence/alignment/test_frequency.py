"""Maps by frequency ranks: right even if noise hides the shape of the spaces, and otherwise not trusted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from relexify.errors import EvidenceError, InputError
from relexify.evidence.alignment.unsupervised.frequency import map_by_frequency
from relexify.evidence.alignment.unsupervised.options import AdversarialTraining, resolve_options
from relexify.evidence.alignment.unsupervised.search import find_map
from relexify.evidence.alignment.unsupervised.spaces import prepare_space, random_rotation
from tests.evidence.alignment.clouds import cloud

WORDS, WIDTH = 1_000, 24
FEW_GAMES = AdversarialTraining(hidden=16, steps=20, epochs=1, restarts=1, judged=480)


def noisy(seed: int, noise: float = 1.0, order: float = 0.1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two spherical clouds, which have no axes, one rotated, with noise and slightly other ranks; and the truth."""
    random = np.random.default_rng(seed)
    source = random.normal(size=(WORDS, WIDTH))
    target = source @ random_rotation(WIDTH, random) + noise * random.normal(size=source.shape)
    positions = np.argsort(np.arange(WORDS) * np.exp(order * random.normal(size=WORDS)))
    return source, target[positions], np.argsort(positions)


def both(source: np.ndarray, target: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
    options = resolve_options(None, WIDTH)
    return prepare_space(source, options, "cpu"), prepare_space(target, options, "cpu")


def cosine_of_pairs(source: torch.Tensor, target: torch.Tensor, matrix: np.ndarray, truth: np.ndarray) -> float:
    moved = source @ torch.from_numpy(matrix).to(source)
    return float(torch.nn.functional.cosine_similarity(moved, target[torch.from_numpy(truth)]).mean())


@pytest.mark.parametrize("seed", [0, 1])
def test_frequency_finds_a_map_that_the_shapes_of_noisy_clouds_hide(seed):
    source, target, truth = noisy(seed)
    left, right = both(source, target)
    found = map_by_frequency(left, right, spread=0.1)
    assert found.stable
    assert found.stability > 5 * found.chance
    assert cosine_of_pairs(left, right, found.matrix, truth) > 0.6  # with the right map it is 0.71
    assert np.allclose(found.matrix.T @ found.matrix, np.eye(WIDTH), atol=1e-9)
    with pytest.raises(EvidenceError):
        find_map(source, target, replace(FEW_GAMES, frequency_map=False), seed=seed)
    used = find_map(source, target, FEW_GAMES, seed=seed)
    assert used.converged
    assert used.games == 0
    assert used.stability > 0


@pytest.mark.parametrize("seed", [0, 1])
def test_the_map_is_not_trusted_if_ranks_or_vectors_do_not_correspond(seed):
    source, target, _ = noisy(seed)
    shuffled = np.random.default_rng(seed).permutation(source)
    for others in (shuffled, cloud(WORDS, WIDTH, seed), np.random.default_rng(99).normal(size=source.shape)):
        assert not map_by_frequency(*both(others, target), spread=0.1).stable


def test_a_common_trend_with_frequency_does_not_make_a_map_trusted():
    random = np.random.default_rng(0)
    source, target = random.normal(size=(2, WORDS, WIDTH))
    along = np.zeros((WORDS, WIDTH))
    along[:, :8] = 2 * np.sin(np.linspace(0, 6, WORDS)[:, None] * np.arange(1, 9))
    found = map_by_frequency(*both(source + along, target + along @ random_rotation(WIDTH, random)), spread=0.2)
    assert found.stability > 0.2  # two maps agree on it,
    assert not found.stable  # as they would with any words


def test_spaces_of_different_size_are_aligned():
    source, target, truth = noisy(3, noise=0.5)
    left, right = both(source[:800], target)  # the missing words are rare ones
    found = map_by_frequency(left, right, spread=0.1)
    assert found.stable
    assert cosine_of_pairs(left, right, found.matrix, truth[:800]) > 0.8


@pytest.mark.parametrize("seed", [0, 1])
def test_words_with_identical_vectors_do_not_make_a_map_trusted(seed):
    random = np.random.default_rng(seed)
    source, target = random.normal(size=(2, 400, 10))
    source[-40:], target[-40:] = source[-1], target[-1]  # as for tokens that no text contained
    assert not map_by_frequency(*both(source, target), spread=0.1).stable
    tenfold = [np.repeat(rows[:60], 10, axis=0) for rows in (source, target)]
    assert not map_by_frequency(*both(*tenfold), spread=0.1).stable


def test_few_words_or_few_directions_give_no_map_rather_than_a_crash():
    random = np.random.default_rng(0)
    wide, same = random.normal(size=(100, 4)), np.ones((100, 4))
    few = [(random.normal(size=(5, 1)), random.normal(size=(5, 1))), (same, wide), (wide, same), (wide[:9], wide)]
    for source, target in few:
        found = map_by_frequency(*both(source, target), spread=0.1)
        assert (found.stable, found.stability) == (False, 0.0)
        assert np.array_equal(found.matrix, np.eye(source.shape[1]))
    for words in range(1, 12):
        options = replace(FEW_GAMES, frequency_words=words, judged=None)
        assert not find_map(wide, random.normal(size=wide.shape), options, insist=False).stability


def test_options_out_of_range_are_rejected():
    for wrong in ({"frequency_words": 0}, {"frequency_spread": 0.0}):
        with pytest.raises(InputError, match=next(iter(wrong))):
            find_map(cloud(400, 10, 0), cloud(400, 10, 1), AdversarialTraining(**wrong))
