"""The neighbour search against a full sort."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from relexify.errors import InputError
from relexify.neighbours import accelerator, largest_products, nearest, nearest_others, normalise_rows, search
from relexify.neighbours.products import float32_product, int8_product


def full_sort(queries, keys, k):
    exact = normalise_rows(queries).astype(np.float64) @ normalise_rows(keys).astype(np.float64).T
    scores = exact.astype(np.float32)
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
    assert np.array_equal(similarities, values)
    assert np.array_equal(found, expected)


def test_equally_similar_keys_are_in_order_whether_they_are_duplicates_or_not():
    keys = np.array([[1, 2], [1, -2], [1, 2], [3, 0], [1, -2]])
    for k in range(1, 6):
        for device in ("cpu", "cpu:0"):
            found, similarities = nearest(np.array([[1, 0], [0, 0], [2, 0]]), keys, k, device=device)
            assert found[[0, 2]].tolist() == [[3, 0, 1, 2, 4][:k]] * 2
            assert found[1].tolist() == [0, 1, 2, 3, 4][:k]
            assert not similarities[1].any()


def test_blocks_do_not_change_the_result(monkeypatch):
    draw = np.random.default_rng(1)
    left, right = draw.standard_normal((100, 16)), draw.standard_normal((500, 16))
    whole = nearest(left, right, 7)
    monkeypatch.setattr(search, "BLOCK_BYTES", 1)
    blocks = nearest(left, right, 7)
    assert np.array_equal(whole[0], blocks[0])
    assert np.array_equal(whole[1], blocks[1])


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 9), st.integers(1, 30), st.integers(1, 20), st.integers(0, 2**32 - 1))
def test_no_row_is_its_own_neighbour(k, distinct, count, seed):
    draw = np.random.default_rng(seed)
    rows = draw.standard_normal((distinct, 5))[draw.integers(0, distinct, 30)]  # many of them equal
    chosen = draw.choice(len(rows), count, replace=False)
    found, similarities = nearest_others(rows[chosen], rows, k, own=chosen)
    for query, neighbours, values in zip(chosen, found, similarities, strict=True):
        others = np.delete(np.arange(len(rows)), query)
        expected, scores = full_sort(rows[[query]], rows[others], k)
        assert np.array_equal(neighbours, others[expected[0]])
        assert np.array_equal(values, scores[0])


def test_the_only_row_that_is_not_zero_has_no_neighbours():
    rows = np.array([[0.0, 0.0], [1.0, 2.0], [0.0, 0.0]])
    found, similarities = nearest_others(rows[[1]], rows, 3, own=np.array([1]))
    assert found.shape == similarities.shape == (1, 0)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 12), st.integers(0, 2**32 - 1))
def test_repeated_rows_give_what_a_full_sort_gives(k, seed):
    draw = np.random.default_rng(seed)
    right = draw.standard_normal((20, 6))[draw.integers(0, 20, 90)]
    left = draw.standard_normal((10, 6))[draw.integers(0, 10, 30)]
    found, similarities = nearest(left, right, k)
    expected, values = full_sort(left, right, k)
    assert np.array_equal(similarities, values)
    assert np.array_equal(found, expected)


def test_zero_keys_are_never_neighbours_and_fewer_than_k_are_returned():
    keys = np.zeros((5, 3))
    keys[2, 0] = keys[4, 1] = 1
    found, _ = nearest(np.eye(3)[:1], keys, 4)
    assert found.tolist() == [[2, 4]]


def test_zero_queries_have_similarity_zero():
    _, similarities = nearest(np.zeros((2, 4)), np.eye(4), 2)
    assert np.array_equal(similarities, np.zeros((2, 2)))


@pytest.mark.parametrize("size", [1e-40, 1e-37, 1e38])
def test_tiny_rows_count_as_zero_and_others_of_any_size_have_a_direction(size):
    draw = np.random.default_rng(7)
    queries, keys = draw.standard_normal((20, 8)), draw.standard_normal((50, 8))
    scaled = keys.copy()
    scaled[3] *= size
    keys[3] *= size > 1e-38
    found, similarities = nearest(queries, scaled, 5)
    expected, values = full_sort(queries, keys, 5)
    assert np.array_equal(found, expected)
    assert np.allclose(similarities, values, atol=1e-5)
    assert np.array_equal(nearest(scaled[3:4], queries, 5)[1].any(), keys[3].any())


@pytest.mark.parametrize("device", ["cpu", "cpu:0"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("left", "right"), [(-140, -140), (-70, -70), (70, -70), (-140, 120), (120, -140), (55, 55)])
def test_products_of_huge_and_tiny_numbers_are_found_like_those_of_others(left, right, dtype, device):
    draw = np.random.default_rng(11)
    # Of few digits, so that powers of two change none of them, even below the smallest normal number.
    queries, keys = draw.integers(-15, 16, (30, 24)), draw.integers(-15, 16, (200, 24))
    queries[3] = keys[5] = 0
    expected, products = largest_products(queries.astype(dtype), keys.astype(dtype), 7, device=device)
    assert np.array_equal(expected, np.argsort(-(queries @ keys.T), axis=1, kind="stable")[:, :7])
    found, values = largest_products(
        np.ldexp(queries.astype(dtype), left), np.ldexp(keys.astype(dtype), right), 7, device=device
    )
    assert np.array_equal(found, expected)
    assert np.array_equal(values, np.ldexp(products.astype(np.float64), left + right).astype(np.float32))


@pytest.mark.parametrize("device", ["cpu", "cpu:0"])
@pytest.mark.parametrize("product", [float32_product, int8_product])
def test_queries_of_very_different_sizes_do_not_affect_one_another(product, device, monkeypatch):
    if product(np.ones((4, 8), np.float32)) is None:
        pytest.skip("no exact products of integers on this CPU")
    monkeypatch.setattr(search, "float32_product", product)
    draw = np.random.default_rng(12)
    queries, keys = draw.standard_normal((20, 8)), draw.standard_normal((300, 8))
    expected, _ = largest_products(queries, keys, 4, device=device)
    found, values = largest_products(queries * 10.0 ** np.arange(-19, 21)[::2, None], keys, 4, device=device)
    assert np.array_equal(found, expected)
    assert np.isfinite(values).all()


@pytest.mark.parametrize("device", ["cpu", "cpu:0"])
def test_products_that_float32_does_not_have_are_rejected(device):
    rows = np.random.default_rng(0).standard_normal((20, 8)).astype(np.float32)
    with pytest.raises(InputError, match=r"products of up to .*e\+6\d are infinite in float32"):
        largest_products(rows * np.float32(1e30), rows * np.float32(1e30), 3, device=device)
    mixed = rows.copy()
    mixed[3] *= np.float32(1e38)
    mixed[4] *= np.float32(1e-30)
    with pytest.raises(InputError, match=r"1 of 20 keys have numbers that are too small beside others of up to 1"):
        largest_products(rows, mixed, 3, device=device)


def test_rows_of_huge_numbers_have_length_one_to_the_last_digits():
    rows = np.random.default_rng(0).standard_normal((50, 300)) * 1e37
    lengths = np.linalg.norm(normalise_rows(rows).astype(np.float64), axis=1)
    on_device = accelerator._normalised(torch.from_numpy(rows.astype(np.float32))).double().norm(dim=1)
    assert np.abs(lengths - 1).max() < 2e-7
    assert np.abs(on_device.numpy() - 1).max() < 2e-7


@pytest.mark.parametrize(
    ("queries", "keys", "k", "message"),
    [
        (np.ones((2, 3)), np.ones((2, 4)), 1, "the same width"),
        (np.ones((2, 3)), np.ones((2, 3)), 0, "at least 1"),
        (np.ones((2, 3)), np.zeros((2, 3)), 1, "zero vector"),
        (np.ones((2, 3)), np.array([[1, 2, 3], [1, np.nan, 2]]), 1, "1 of 2 keys contain NaN"),
        (np.array([[1, 2], [1e200, 1]]), np.ones((2, 2)), 1, "1 of 2 queries contain NaN or numbers that are infinite"),
    ],
)
@pytest.mark.parametrize("device", ["cpu", "cpu:0"])
def test_impossible_searches_are_rejected(queries, keys, k, message, device):
    with pytest.raises(InputError, match=message):
        nearest(queries, keys, k, device=device)


PRODUCTS = [float32_product] + [int8_product] * (int8_product(np.eye(2, dtype=np.float32)) is not None)
MAXIMA = [search._numpy_maxima, search._torch_maxima]
KINDS = ["normal", "outliers", "offset", "lengths", "integers", "close", "zeros"]


def vectors(kind: str, rows: int, draw: np.random.Generator) -> np.ndarray:
    """Return rows that are easy, hard or impossible to tell apart in low precision, float32 [rows × 24]."""
    matrix = draw.standard_normal((rows, 24)).astype(np.float32)
    if kind == "outliers":
        matrix[:, 3] *= 100
    elif kind == "offset":
        matrix += 20
    elif kind == "lengths":
        matrix *= 10 ** draw.uniform(-6, 6, (rows, 1)).astype(np.float32)
    elif kind == "integers":
        matrix = np.rint(matrix)
    elif kind == "close":
        matrix = matrix[:1] + 1e-6 * matrix
    elif kind == "zeros":
        matrix[:: max(2, rows // 3)] = 0
    return matrix


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("product", PRODUCTS)
def test_products_are_not_further_off_than_their_bound(product, kind):
    draw = np.random.default_rng(3)
    queries, keys = vectors(kind, 200, draw), vectors(kind, 500, draw)
    scores, errors, factors = product(keys)(queries)
    exact = queries.astype(np.float64) @ keys.astype(np.float64).T
    for products in (exact, exact.astype(np.float32)):
        assert np.all(np.abs(scores - factors[:, None] * products) <= errors[:, None])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("product", PRODUCTS)
@pytest.mark.parametrize("group_maxima", MAXIMA)
def test_every_first_pass_gives_the_largest_exact_products_to_the_last_bit(product, kind, group_maxima):
    draw = np.random.default_rng(4)
    queries, keys = vectors(kind, 100, draw), vectors(kind, 700, draw)
    exact = (queries.astype(np.float64) @ keys.astype(np.float64).T).astype(np.float32)
    expected = np.argsort(-exact, axis=1, kind="stable")[:, :9]
    found, values = search._search_block(queries, keys, 9, product(keys), group_maxima)
    assert np.array_equal(found, expected)
    assert np.array_equal(values, np.take_along_axis(exact, expected, axis=1))


@pytest.mark.parametrize("keys", [1, 5, 63, 64, 65, 700])
@pytest.mark.parametrize("k", [1, 4, 60])
@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_groups_leave_out_no_column(keys, k, dtype):
    k = min(k, keys)
    scores = np.random.default_rng(k).permutation(7 * keys).reshape(7, keys).astype(dtype)
    size = search._group_size(keys, k)
    maxima = search._numpy_maxima(scores, size)
    assert np.array_equal(maxima, search._torch_maxima(scores, size))
    assert maxima.shape[1] >= k
    columns, largest = search._largest_of_groups(scores, maxima, size, k)
    assert np.array_equal(np.sort(largest), np.sort(maxima)[:, -k:])
    assert np.array_equal(np.take_along_axis(scores, columns, axis=1), largest)
    assert all(len(set(row)) == k for row in columns)
    limits = np.sort(scores)[:, -k] - 0.5
    expected = np.nonzero(scores >= limits[:, None])
    assert np.array_equal(search._candidates(scores, maxima, size, limits), expected)


@pytest.mark.skipif(len(PRODUCTS) == 1, reason="torch has no 8-bit products for this CPU")
def test_threads_in_low_precision_give_what_one_thread_gives_in_float32(monkeypatch):
    draw = np.random.default_rng(5)
    queries, keys = (draw.standard_normal((count, 64)).astype(np.float32) for count in (4000, 3000))
    expected = largest_products(queries, keys, 5)
    monkeypatch.setattr(search, "float32_product", int8_product)
    for ours, theirs in zip(largest_products(queries, keys, 5), expected, strict=True):
        assert np.array_equal(ours, theirs)


@pytest.mark.parametrize("is_exact", [True, False])
def test_a_faster_product_is_used_only_if_it_is_exact(is_exact, monkeypatch):
    draw = np.random.default_rng(6)
    queries, keys = (draw.standard_normal((600, 8)).astype(np.float32) for _ in range(2))
    expected, blocks = largest_products(queries, keys, 3), []

    def faster(keys):
        def multiply(queries):
            blocks.append(len(queries))
            scores, errors, factors = float32_product(keys)(queries)
            return (scores if is_exact else -scores), errors, factors

        return multiply

    times = itertools.chain([0, 2, 2, 3], itertools.repeat(3))  # the second product takes half of the time of the first
    monkeypatch.setattr(search, "LARGE", 0)
    monkeypatch.setattr(search, "int8_product", faster)
    monkeypatch.setattr(search, "time", SimpleNamespace(thread_time=lambda: next(times)))
    assert np.array_equal(largest_products(queries, keys, 3)[0], expected[0])
    assert blocks[:2] == [1, 64]  # few queries are tried
    assert sorted(blocks[2:]) == ([88, 512] if is_exact else [])  # threads finish in any order


@pytest.mark.parametrize(("cores", "is_tried"), [(2, True), (72, False)])
def test_many_threads_do_not_copy_large_keys(cores, is_tried, monkeypatch):
    keys, tried = np.eye(600, dtype=np.float32), []
    monkeypatch.setattr(search, "LARGE", 0)
    monkeypatch.setattr(search, "COPIED_BYTES", keys.size)
    monkeypatch.setattr(search, "available_cores", lambda: cores)
    monkeypatch.setattr(search, "int8_product", lambda keys: tried.append(True))
    largest_products(keys, keys, 1)
    assert bool(tried) == is_tried


def half_products(queries: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
    """Multiply as a GPU does: inputs and products in half precision, sums in float32."""
    return (queries.float() @ keys.float()).half()


def tf32_products(queries: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
    """Multiply as a GPU does for which TF32 is allowed: 10 bits of the inputs, sums in float32."""
    cut = [(matrix.contiguous().view(torch.int32) & -(1 << 13)).view(torch.float32) for matrix in (queries, keys)]
    return cut[0] @ cut[1]


@pytest.fixture(params=["float32", "half", "tf32"])
def accelerated(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return a device that is searched like a GPU, with a first pass in one of the precisions of GPUs."""
    monkeypatch.setattr(accelerator, "_has_half_products", lambda keys: request.param == "half")
    if request.param == "half":
        monkeypatch.setattr(accelerator, "_multiply", half_products)
    elif request.param == "tf32":
        monkeypatch.setattr(accelerator, "_multiply", tf32_products)
        monkeypatch.setattr(accelerator, "_rounds_inputs", lambda keys: True)
    return "cpu:0"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k", [1, 5, 60, 300])
@pytest.mark.parametrize("find", [nearest, largest_products])
def test_an_accelerator_finds_the_same_products(find, kind, k, accelerated):
    draw = np.random.default_rng(2)
    left, right = vectors(kind, 64, draw), vectors(kind, 300, draw)
    right[100:120] = right[7]
    expected, values = find(left, right, k)
    found, products = find(left, right, k, device=accelerated)
    # Sums in float64 depend on their order, so that the last bit in float32 may differ, and the order of such keys.
    assert np.allclose(products, values, rtol=3e-7, atol=1e-12)
    if kind in ("normal", "outliers"):
        assert np.array_equal(found, expected)


class LargestTensor(TorchDispatchMode):
    """Notes the bytes of the largest tensor that torch makes."""

    size = 0

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        made = function(*arguments, **(options or {}))
        for each in made if isinstance(made, tuple | list) else (made,):
            if isinstance(each, torch.Tensor):
                self.size = max(self.size, each.untyped_storage().nbytes())
        return made


@pytest.mark.parametrize("kind", ["normal", "close"])  # of the latter, all rows are computed as a whole
@pytest.mark.parametrize("k", [10, 300, 1000, 2990, 3000])
def test_an_accelerator_needs_no_more_memory_for_a_large_k(k, kind, accelerated, monkeypatch):
    draw = np.random.default_rng(8)
    left, right = vectors(kind, 60, draw), vectors(kind, 3000, draw)
    expected, values = largest_products(left, right, k)
    monkeypatch.setattr(accelerator, "BLOCK_BYTES", right.nbytes)
    with LargestTensor() as largest:
        found, products = largest_products(left, right, k, device=accelerated)
    assert largest.size <= right.nbytes
    assert np.allclose(products, values, rtol=3e-7, atol=1e-12)
    if kind == "normal":
        assert np.array_equal(found, expected)


@pytest.mark.parametrize("columns", [1, 63, 640, 641, 2_000])
@pytest.mark.parametrize("count", [1, 3, 9])
def test_the_largest_scores_are_found_by_groups(columns, count):
    scores = torch.from_numpy(np.random.default_rng(columns).permutation(5 * columns).reshape(5, columns)).float()
    best, places = accelerator._largest_scores(scores, min(count, columns))
    expected = scores.topk(min(count, columns), dim=1)
    assert torch.equal(best, expected.values)
    assert torch.equal(places, expected.indices)


@pytest.mark.parametrize("find", [nearest, largest_products])
def test_no_queries_have_no_neighbours(find, accelerated):
    for device in ("cpu", accelerated):
        found, products = find(np.ones((0, 4)), np.eye(4), 2, device=device)
        assert found.shape == products.shape == (0, 2)


def test_a_device_without_enough_memory_is_reported(monkeypatch):
    def fail(*arguments):
        raise torch.OutOfMemoryError("Tried to allocate 2.00 GiB")

    monkeypatch.setattr(accelerator, "_FirstPass", fail)
    with pytest.raises(InputError, match=r"the memory of cpu:0 is too small .*`device=cpu`"):
        nearest(np.eye(99), np.eye(99), 1, device="cpu:0")
