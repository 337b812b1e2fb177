"""One search for the largest k serves every k and τ, bit for bit."""

from __future__ import annotations

from contextlib import nullcontext
from itertools import product

import numpy as np
import pytest

from relexify.errors import EvidenceError, InputError
from relexify.evidence.vectors import SubwordVectors
from relexify.methods.parts.token_space import TokenSpace
from relexify.methods.wechsel import vector_neighbours, weigh_neighbours
from relexify.mixture import softmax_weights
from relexify.progress import report_to
from relexify.tokens import vocabulary_of
from tests import pico

SOURCE = vocabulary_of(pico.byte_level())
TARGET = vocabulary_of(pico.byte_level(pico.sentences(words=pico.foreign_words(), seed=3), size=330))


def subwords(vocabulary, seed, *, width=16, kinds=None):
    """Return random vectors, some of them zero, and many of them equal if only few `kinds` are drawn."""
    draw = np.random.default_rng(seed)
    matrix = draw.normal(size=(kinds or len(vocabulary), width)).astype(np.float32)
    matrix = matrix[draw.integers(0, len(matrix), len(vocabulary))] if kinds else matrix
    matrix[::9] = 0
    return SubwordVectors(vocabulary, matrix, np.any(matrix != 0, axis=1))


def mixtures(source, target, neighbours, temperatures=(0.1, 1.0)):
    """Return mixtures by k and τ that share one search, the largest k first."""
    space = TokenSpace(source, target, rotation=None)
    found = {count: space.nearest(count) for count in sorted(neighbours, reverse=True)}
    return {
        (count, temperature): weigh_neighbours(found[count], source, target, temperature=temperature)
        for count, temperature in product(neighbours, temperatures)
    }


@pytest.mark.parametrize("kinds", [None, 60, 4])
def test_a_shared_search_is_bit_equal_to_a_search_for_each_k(kinds):
    source, target = subwords(SOURCE, 0, kinds=kinds), subwords(TARGET, 1)
    counts, temperatures = (1, 2, 7, 10, 50, 399), (0.1, 0.5, 1.0)
    cells = mixtures(source, target, counts, temperatures)
    for (count, temperature), mixture in cells.items():
        alone = vector_neighbours(source, target, neighbours=count, temperature=temperature)
        for part in ("data", "indices", "indptr"):
            assert np.array_equal(getattr(mixture.weights, part), getattr(alone.weights, part))
        assert np.array_equal(mixture.origin, alone.origin)
        assert mixture.method == alone.method


def test_fewer_neighbours_than_before_need_no_search():
    searches = []

    def reporter(description, total=None):
        searches.append(description)
        return nullcontext(lambda amount: None)

    with report_to(reporter):
        cells = mixtures(subwords(SOURCE, 0), subwords(TARGET, 1), (20, 1, 5), (0.3, 2.0))
    assert len(searches) == 1
    assert [np.diff(mixture.weights.indptr).max() for mixture in cells.values()] == [20, 20, 1, 1, 5, 5]


def test_a_row_is_the_softmax_over_its_nearest_tokens():
    source, target = subwords(SOURCE, 0), subwords(TARGET, 1)
    mixture = mixtures(source, target, (3, 9), (0.2,))[3, 0.2]
    lengths = np.linalg.norm(source.matrix, axis=1)
    for id in np.flatnonzero(target.covered)[::20]:
        vector = target.matrix[id] / np.linalg.norm(target.matrix[id])
        cosines = np.where(lengths > 0, source.matrix @ vector / np.where(lengths > 0, lengths, 1), -9)
        best = np.argsort(-cosines)[:3]
        weights = softmax_weights(cosines[best][None], 0.2)[0]
        assert dict(mixture.sources(int(id))) == pytest.approx(
            {SOURCE.tokens[column]: weight for column, weight in zip(best, weights, strict=True)}, abs=1e-5
        )


def test_a_single_neighbour_has_all_the_weight_at_every_temperature():
    cells = mixtures(subwords(SOURCE, 0), subwords(TARGET, 1), (1,))
    first, second = cells.values()
    assert (first.weights != second.weights).nnz == 0
    assert set(first.weights.data) == {1.0}


def test_a_temperature_of_zero_is_rejected():
    with pytest.raises(InputError, match="must be positive"):
        mixtures(subwords(SOURCE, 0), subwords(TARGET, 1), (2,), (0.0,))


def test_sides_that_do_not_match_are_rejected():
    with pytest.raises(InputError, match="16 wide and target vectors 8"):
        mixtures(subwords(SOURCE, 0), subwords(TARGET, 1, width=8), (2,))
    nothing = SubwordVectors(TARGET, np.zeros((len(TARGET), 16), np.float32), np.zeros(len(TARGET), bool))
    with pytest.raises(EvidenceError, match="target vocabulary"):
        mixtures(subwords(SOURCE, 0), nothing, (2,))
