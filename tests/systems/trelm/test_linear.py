"""The linear map that foretells a model's rows."""

from __future__ import annotations

import numpy as np
import pytest

from relexify.systems.trelm.embedding import RESTRAINTS, fitted_linear


@pytest.mark.parametrize("noise", [0.01, 1.0, 5.0])
def test_of_all_restraints_that_is_taken_under_which_each_pair_is_foretold_best_by_the_others(noise):
    random = np.random.default_rng(0)
    rows, told = random.normal(size=(60, 5)), random.normal(size=(5, 5))
    deviations = (rows @ told + noise * random.normal(size=(60, 5)))[::-1]
    pairs = np.stack([np.arange(40), 59 - np.arange(40)], axis=1)
    known, wanted = rows[:40], deviations[::-1][:40]

    def ridge(left: np.ndarray, right: np.ndarray, restraint: float) -> np.ndarray:
        return np.linalg.solve(left.T @ left + 40 * restraint * np.eye(5), left.T @ right)

    def missed(restraint: float) -> float:
        others = [np.arange(40) != one for one in range(40)]
        maps = [ridge(known[rest], wanted[rest], restraint) for rest in others]
        return float(np.mean([(known[one] @ maps[one] - wanted[one]) ** 2 for one in range(40)]))

    best = min(RESTRAINTS, key=missed)
    matrix, explained = fitted_linear(rows, deviations, pairs)
    assert np.allclose(matrix, ridge(known, wanted, best))
    assert explained == pytest.approx(1 - missed(best) / np.mean((wanted - wanted.mean(axis=0)) ** 2))


def test_the_less_vectors_tell_the_shorter_are_the_rows():
    random = np.random.default_rng(0)
    rows, told, drawn = random.normal(size=(500, 6)), random.normal(size=(6, 6)), random.normal(size=(500, 6))
    pairs = np.stack([np.arange(500)] * 2, axis=1)
    lengths, shares = [], []
    for noise in (0.0, 6.0, 300.0):
        deviations = rows @ told + noise * drawn
        deviations /= deviations.std()
        matrix, explained = fitted_linear(rows, deviations, pairs)
        lengths.append(float((rows @ matrix).std()))
        shares.append(explained)
    assert lengths[0] == pytest.approx(1, abs=0.01)
    assert 1 > 2 * lengths[1] > 4 * lengths[2]
    assert shares[0] > 0.99
    assert shares[1] == pytest.approx(lengths[1] ** 2, abs=0.05)
    assert shares[2] < 0.01


def test_no_pairs_foretell_nothing():
    matrix, explained = fitted_linear(np.ones((4, 3)), np.ones((5, 3)), np.zeros((0, 2), np.int64))
    assert not matrix.any()
    assert explained == 0
