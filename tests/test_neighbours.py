"""The neighbour search against a full sort."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relexify import neighbours
from relexify.errors import InputError
from relexify.neighbours import nearest, normalise_rows


def full_sort(queries, keys, k):
    scores = normalise_rows(queries).astype(np.float64) @ normalise_rows(keys).astype(np.float64).T
    scores[:, ~np.any(keys != 0, axis=1)] = -np.inf
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return order, np.take_along_axis(scores, order, axis=1)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 40), st.integers(1, 300), st.integers(1, 12), st.integers(0, 2**32 - 1))
def test_neighbours_equal_a_full_sort(queries, keys, k, seed):
    draw = np.random.default_rng(seed)
    left, right = draw.standard_normal((queries, 8)), draw.standard_normal((keys, 8))
    found, similarities = nearest(left, right, k)
    expected, values = full_sort(left, right, k)
    assert found.shape == (queries, min(k, keys))
    assert np.allclose(similarities, values, atol=1e-5)
    assert np.mean(found == expected) > 0.99


def test_blocks_do_not_change_the_result(monkeypatch):
    draw = np.random.default_rng(1)
    left, right = draw.standard_normal((100, 16)), draw.standard_normal((500, 16))
    whole = nearest(left, right, 7)
    monkeypatch.setattr(neighbours, "BLOCK_BYTES", 1)
    assert np.array_equal(whole[0], nearest(left, right, 7)[0])


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 12), st.integers(0, 2**32 - 1))
def test_repeated_rows_give_what_a_full_sort_gives(k, seed):
    draw = np.random.default_rng(seed)
    right = draw.standard_normal((20, 6))[draw.integers(0, 20, 90)]
    left = draw.standard_normal((10, 6))[draw.integers(0, 10, 30)]
    found, similarities = nearest(left, right, k)
    expected, values = full_sort(left, right, k)
    assert np.allclose(similarities, values, atol=1e-5)
    assert np.array_equal(found, expected)


def test_zero_keys_are_never_neighbours_and_fewer_than_k_are_returned():
    keys = np.zeros((5, 3))
    keys[2, 0] = keys[4, 1] = 1
    found, _ = nearest(np.eye(3)[:1], keys, 4)
    assert found.tolist() == [[2, 4]]


def test_zero_queries_have_similarity_zero():
    _, similarities = nearest(np.zeros((2, 4)), np.eye(4), 2)
    assert np.array_equal(similarities, np.zeros((2, 2)))


def test_torch_finds_the_same_neighbours():
    draw = np.random.default_rng(2)
    left, right = draw.standard_normal((64, 12)), draw.standard_normal((400, 12))
    ours, theirs = nearest(left, right, 5), nearest(left, right, 5, device="cpu:0")
    assert np.array_equal(ours[0], theirs[0])
    assert np.allclose(ours[1], theirs[1], atol=1e-6)


@pytest.mark.parametrize(
    ("queries", "keys", "k", "message"),
    [
        (np.ones((2, 3)), np.ones((2, 4)), 1, "one width"),
        (np.ones((2, 3)), np.ones((2, 3)), 0, "at least 1"),
        (np.ones((2, 3)), np.zeros((2, 3)), 1, "zero vector"),
    ],
)
def test_impossible_searches_are_rejected(queries, keys, k, message):
    with pytest.raises(InputError, match=message):
        nearest(queries, keys, k)
