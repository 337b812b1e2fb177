"""One search for a whole grid gives what a search for every cell gives."""

from __future__ import annotations

from contextlib import nullcontext
from itertools import product

import numpy as np
import pytest

from relexify.errors import EvidenceError, InputError
from relexify.evidence.vectors import SubwordVectors
from relexify.methods.grid import neighbour_grid
from relexify.methods.wechsel import vector_neighbours
from relexify.mixture import softmax_weights
from relexify.progress import report_to
from relexify.tokens import vocabulary_of
from tests import pico

OLD = vocabulary_of(pico.byte_level())
NEW = vocabulary_of(pico.byte_level(pico.sentences(words=pico.foreign_words(), seed=3), size=330))


def subwords(vocabulary, seed, *, width=16, kinds=None):
    """Random vectors, some of them zero, and many of them equal where only so many `kinds` are drawn."""
    draw = np.random.default_rng(seed)
    matrix = draw.normal(size=(kinds or len(vocabulary), width)).astype(np.float32)
    matrix = matrix[draw.integers(0, len(matrix), len(vocabulary))] if kinds else matrix
    matrix[::9] = 0
    return SubwordVectors(vocabulary, matrix, np.any(matrix != 0, axis=1))


@pytest.mark.parametrize("kinds", [None, 60, 4])
def test_every_cell_is_bit_equal_to_a_search_of_its_own(kinds):
    source, target = subwords(OLD, 0, kinds=kinds), subwords(NEW, 1)
    counts, temperatures = (1, 2, 7, 10, 50, 399), (0.1, 0.5, 1.0)
    cells = neighbour_grid(source, target, neighbours=counts, temperatures=temperatures)
    assert list(cells) == list(product(counts, temperatures))
    for (count, temperature), mixture in cells.items():
        alone = vector_neighbours(source, target, neighbours=count, temperature=temperature)
        for part in ("data", "indices", "indptr"):
            assert np.array_equal(getattr(mixture.weights, part), getattr(alone.weights, part))
        assert np.array_equal(mixture.origin, alone.origin)
        assert mixture.method == alone.method


def test_the_largest_number_need_not_come_last_and_the_search_is_done_once():
    searches = []

    def reporter(description, total=None):
        searches.append(description)
        return nullcontext(lambda amount: None)

    with report_to(reporter):
        cells = neighbour_grid(subwords(OLD, 0), subwords(NEW, 1), neighbours=(20, 1, 5), temperatures=(0.3, 2.0))
    assert len(searches) == 1
    assert [np.diff(mixture.weights.indptr).max() for mixture in cells.values()] == [20, 20, 1, 1, 5, 5]


def test_a_row_is_the_softmax_over_its_nearest_tokens():
    source, target = subwords(OLD, 0), subwords(NEW, 1)
    mixture = neighbour_grid(source, target, neighbours=(3, 9), temperatures=(0.2,))[3, 0.2]
    lengths = np.linalg.norm(source.matrix, axis=1)
    for id in np.flatnonzero(target.covered)[::20]:
        vector = target.matrix[id] / np.linalg.norm(target.matrix[id])
        cosines = np.where(lengths > 0, source.matrix @ vector / np.where(lengths > 0, lengths, 1), -9)
        best = np.argsort(-cosines)[:3]
        weights = softmax_weights(cosines[best][None], 0.2)[0]
        assert dict(mixture.sources(int(id))) == pytest.approx(
            {OLD.tokens[column]: weight for column, weight in zip(best, weights, strict=True)}, abs=1e-5
        )


def test_a_single_neighbour_has_all_the_weight_at_every_temperature():
    cells = neighbour_grid(subwords(OLD, 0), subwords(NEW, 1), neighbours=(1,))
    first, second = cells.values()
    assert (first.weights != second.weights).nnz == 0
    assert set(first.weights.data) == {1.0}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"neighbours": ()}, "at least one number"),
        ({"temperatures": ()}, "one temperature"),
        ({"neighbours": (10, 0)}, "not 0"),
        ({"temperatures": (0.1, 0.0)}, "must be positive"),
    ],
)
def test_impossible_grids_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        neighbour_grid(subwords(OLD, 0), subwords(NEW, 1), **options)


def test_sides_that_do_not_fit_are_refused_as_for_one_cell():
    with pytest.raises(InputError, match="16 wide and target vectors 8"):
        neighbour_grid(subwords(OLD, 0), subwords(NEW, 1, width=8))
    nothing = SubwordVectors(NEW, np.zeros((len(NEW), 16), np.float32), np.zeros(len(NEW), bool))
    with pytest.raises(EvidenceError, match="target vocabulary"):
        neighbour_grid(subwords(OLD, 0), nothing)
