"""Sparsemax: its definition, its optimality, and the search that never holds the whole matrix."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from relexify.errors import InputError
from relexify.mixture import sparsemax_products, sparsemax_weights
from relexify.mixture import weights as module
from relexify.neighbours import largest_products
from tests.mixture.definitions import sparsemax

ROWS = arrays(np.float64, st.tuples(st.integers(1, 8), st.integers(1, 12)), elements=st.floats(-50, 50))


@given(ROWS)
def test_sparsemax_equals_its_sparsemax(scores):
    assert np.allclose(sparsemax_weights(scores), [sparsemax(row.tolist()) for row in scores], atol=1e-6)


@given(ROWS)
def test_sparsemax_is_the_nearest_point_of_the_simplex(scores):
    """The conditions of Karush, Kuhn and Tucker for min ½‖p - z‖² with p ≥ 0 and Σ p = 1."""
    weights = sparsemax_weights(scores)
    assert (weights >= 0).all()
    assert np.allclose(weights.sum(axis=1), 1)
    for row, made in zip(scores, weights, strict=True):
        multiplier = (row - made)[made > 0]
        assert np.ptp(multiplier) < 1e-9, "one multiplier for all that has a weight"
        assert (row[made == 0] <= multiplier.max() + 1e-9).all(), "and nothing above it without one"


def test_sparsemax_does_not_mind_large_scores_or_a_shift():
    scores = np.array([[1.0, 0.75, 0.0]])
    assert np.allclose(sparsemax_weights(scores), [[0.625, 0.375, 0]])
    assert np.allclose(sparsemax_weights(scores + 1e6), [[0.625, 0.375, 0]], atol=1e-6)
    assert np.array_equal(sparsemax_weights(np.array([[1e30, 0.0]])), [[1.0, 0.0]])


@pytest.mark.parametrize("scale", [0.02, 0.3, 3.0])
def test_blockwise_products_equal_the_dense_matrix(scale, monkeypatch):
    """Small scales have wide supports, so that the search must be widened to the end."""
    draw = np.random.default_rng(0)
    queries, keys = draw.standard_normal((70, 8)) * scale, draw.standard_normal((300, 8))
    monkeypatch.setattr(module, "_FIRST_CANDIDATES", 4)
    monkeypatch.setattr(module, "_MAX_PRODUCTS", 64)
    found = sparsemax_products(queries, keys)
    products = queries.astype(np.float32).astype(np.float64) @ keys.astype(np.float32).astype(np.float64).T
    dense = sparsemax_weights(products.astype(np.float32))
    assert np.allclose(found.toarray(), dense, atol=1e-6)
    assert found.nnz == (found.toarray() > 0).sum(), "no zero is stored"


def test_equal_keys_share_the_weight_and_zero_queries_spread_it():
    keys = np.array([[1.0, 0], [1.0, 0], [0, 1.0], [0, -1.0]])
    found = sparsemax_products(np.array([[4.0, 0], [0, 0]]), keys).toarray()
    assert np.allclose(found, [[0.5, 0.5, 0, 0], [0.25, 0.25, 0.25, 0.25]])


def test_no_queries_give_no_rows():
    assert sparsemax_products(np.zeros((0, 3)), np.ones((5, 3))).shape == (0, 5)


def test_largest_products_depend_on_lengths_and_are_in_order():
    queries, keys = np.array([[1.0, 1.0]]), np.array([[1.0, 0], [5.0, 0], [0, 0], [-9.0, 0], [0, 2.0]])
    columns, values = largest_products(queries, keys, 4)
    assert columns.tolist() == [[1, 4, 0, 2]]
    assert values.tolist() == [[5, 2, 1, 0]]
    with pytest.raises(InputError, match="6 of 5 keys"):
        largest_products(queries, keys, 6)
