"""Vector alignment without a dictionary: found if the spaces correspond, an error if they do not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from relexify.errors import EvidenceError, InputError
from relexify.evidence.alignment import Rotation
from relexify.evidence.alignment.unsupervised.options import AdversarialTraining
from relexify.evidence.alignment.unsupervised.search import align_unsupervised, find_map
from tests.evidence.alignment.clouds import cloud, dictionary, turned, words_of

QUICK = AdversarialTraining(hidden=64, steps=300, epochs=3, restarts=3, learning_rate=1.0, judged=1000)
EASY = AdversarialTraining(hidden=16, steps=20, epochs=1, restarts=1, judged=800)
SHORT = AdversarialTraining(hidden=16, steps=10, epochs=1, restarts=1, batch=16, judged=300)


@pytest.fixture(scope="module")
def planted() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return turned(800, 10, 0)


def test_a_planted_rotation_is_found_from_a_random_start_without_any_pair():
    source, target, truth = turned(1000, 10, 4)
    alone = replace(QUICK, principal_axes=False, frequency_map=False, restarts=12)
    for seed in range(3):  # which starts fail, or end in a map that is right for half of the words, depends on the CPU
        found = find_map(source, target, alone, seed=seed)
        right = np.mean(truth[found.agreement.source] == found.agreement.target)
        if right > 0.9:
            break
    assert right > 0.9
    assert found.converged
    assert found.games > 0
    assert found.agreement.share > 0.9 > found.chance.share
    assert np.allclose(found.matrix.T @ found.matrix, np.eye(10), atol=1e-9)


def test_the_rotation_translates_words_and_a_dictionary_only_measures_it(planted):
    source, target, truth = planted
    sides = words_of(source, "s"), words_of(target, "t")
    measured = align_unsupervised(*sides, options=EASY, lexicon=dictionary(truth))
    assert isinstance(measured, Rotation)
    assert measured.quality is not None
    assert measured.quality.precision > 0.9
    assert measured.quality.words == 800
    wrong = dictionary(np.random.default_rng(0).permutation(800))
    misled = align_unsupervised(*sides, options=EASY, lexicon=wrong)
    assert np.array_equal(misled.matrix, measured.matrix)
    assert misled.quality is not None
    assert misled.quality.precision < 0.1


def test_the_opposite_direction_is_the_transpose(planted):
    sides = words_of(planted[0], "s"), words_of(planted[1], "t")
    there = align_unsupervised(*sides, options=EASY)
    back = align_unsupervised(*sides, options=EASY, direction="target-to-source")
    assert there.quality is None
    assert np.array_equal(back.matrix, there.matrix.T)


def test_unrelated_spaces_are_rejected_with_the_numbers_and_advice():
    with pytest.raises(EvidenceError, match=r"could not be aligned .* in 1 games.* random rotations .* dictionary"):
        find_map(cloud(400, 10, 0), cloud(400, 10, 50), replace(QUICK, restarts=1, steps=100))


def test_without_insist_a_failed_map_is_returned_as_not_converged():
    found = find_map(cloud(300, 6, 0), cloud(300, 6, 50), SHORT, insist=False)
    assert not found.converged
    assert np.allclose(found.matrix.T @ found.matrix, np.eye(6), atol=0.1)


def test_the_same_seed_gives_the_same_map_and_another_seed_another():
    source, target = cloud(300, 6, 0), cloud(300, 6, 50)
    options = replace(QUICK, restarts=1, steps=30, epochs=1, principal_axes=False, frequency_map=False)
    maps = [find_map(source, target, options, insist=False, seed=seed).matrix for seed in (3, 3, 4)]
    assert np.array_equal(maps[0], maps[1])
    assert not np.allclose(maps[0], maps[2])


def test_different_widths_are_rejected_or_reduced(planted):
    source, target, truth = planted
    wide = np.hstack([source, 1e-3 * np.random.default_rng(0).normal(size=(800, 4))])
    sides = words_of(wide, "s"), words_of(target, "t")
    with pytest.raises(InputError, match="14 components and the target vectors 10"):
        align_unsupervised(*sides, options=EASY)
    with pytest.raises(InputError, match="the same width"):
        find_map(wide, target, QUICK)
    rotation = align_unsupervised(*sides, options=EASY, reduce=True, lexicon=dictionary(truth))
    assert rotation.matrix.shape == (14, 10)
    assert rotation.quality is not None
    assert rotation.quality.precision > 0.9


def test_too_few_words_are_rejected():
    with pytest.raises(EvidenceError, match=r"source side has 49 words .* of width 10 need at least 50"):
        find_map(cloud(49, 10, 0), cloud(400, 10, 1), QUICK)


def test_nan_is_rejected():
    broken = cloud(400, 10, 0)
    broken[3, 2] = np.nan
    with pytest.raises(InputError, match="target vectors hold NaN"):
        find_map(cloud(400, 10, 1), broken, QUICK)


@pytest.mark.parametrize("wrong", [{"restarts": -1}, {"dropout": 1.0}, {"smoothing": 0.5}, {"learning_rate": 0.0}])
def test_options_out_of_range_are_rejected(wrong):
    with pytest.raises(InputError, match=next(iter(wrong))):
        find_map(cloud(400, 10, 0), cloud(400, 10, 1), AdversarialTraining(**wrong))
