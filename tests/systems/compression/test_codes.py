"""Codes of tokens: digits of Algorithm 1, clusters of Algorithm 2."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relexify.errors import InputError
from relexify.systems.compression import equal_size as equal_size_module
from relexify.systems.compression.codes import (
    check_codes,
    clustered_codes,
    codes_of,
    digit_codes,
    random_codes,
    smallest_base,
    table_sizes,
)
from relexify.systems.compression.equal_size import bounded_labels, equal_size_labels, squared_distances
from relexify.systems.compression.folder import _cached_codes
from relexify.systems.compression.options import Compression, check_values
from relexify.systems.compression.tables import (
    block_means,
    fitted_tables,
    reconstruction_error,
    shared_digits,
    split_width,
)

TABLE_1 = [(50_265, 2, 225, 115_200), (50_265, 3, 37, 18_944), (50_265, 8, 4, 2_048), (250_002, 3, 63, 32_256)]


@pytest.mark.parametrize(("tokens", "k", "rows", "parameters"), TABLE_1)
def test_tables_have_the_sizes_of_the_paper(tokens, k, rows, parameters):
    assert smallest_base(tokens, k) == rows
    codes = digit_codes(tokens, k)
    assert table_sizes(codes, rows) == [rows] * k
    assert (
        sum(size * width for size, width in zip(table_sizes(codes, rows), split_width(512, k), strict=True))
        == parameters
    )


@given(st.integers(1, 10**15), st.integers(1, 12))
def test_the_base_is_the_smallest_that_suffices_even_if_a_float_root_is_off(tokens, k):
    base = smallest_base(tokens, k)
    assert base**k >= tokens
    assert base == 1 or (base - 1) ** k < tokens


def test_the_base_of_an_exact_power_is_its_root():
    assert [smallest_base(root**k, k) for root, k in ((6, 3), (1000, 5), (94_906_267, 2))] == [6, 1000, 94_906_267]


def test_counted_codes_are_the_digits_of_the_number_lowest_first():
    codes = digit_codes(1000, 3, 10)
    assert codes[[0, 7, 42, 999]].tolist() == [[0, 0, 0], [7, 0, 0], [2, 4, 0], [9, 9, 9]]
    formula = [[n // 7**index % 7 for index in range(4)] for n in range(300)]
    assert digit_codes(300, 4, 7).tolist() == formula


@given(st.integers(1, 3_000), st.integers(1, 6), st.integers(0, 40))
def test_counted_codes_are_unique_if_they_fit_and_rejected_if_not(tokens, k, extra):
    codes = digit_codes(tokens, k, smallest_base(tokens, k) + extra)
    assert len(np.unique(codes, axis=0)) == tokens
    if smallest_base(tokens, k) > 1:
        with pytest.raises(InputError, match="too few"):
            digit_codes(tokens, k, smallest_base(tokens, k) - 1)


@settings(deadline=None, max_examples=25)
@given(
    tokens=st.integers(1, 70),
    k=st.integers(1, 4),
    extra=st.integers(0, 5),
    equal_size=st.booleans(),
    matched=st.booleans(),
    distinct=st.integers(1, 80),
    seed=st.integers(0, 99),
)
def test_clustered_codes_are_unique_and_fit_their_tables(tokens, k, extra, equal_size, matched, distinct, seed):
    rows = np.random.default_rng(seed).normal(size=(distinct, 6)).astype(np.float32)
    rows = rows[np.arange(tokens) % distinct]  # many tokens with one and the same row, as unused ones often have
    clusters = smallest_base(tokens, k) + extra
    codes = clustered_codes(rows, k, clusters, equal_size=equal_size, matched=matched, seed=seed)
    assert codes.shape == (tokens, k)
    assert len(np.unique(codes, axis=0)) == tokens
    assert (codes[:, : None if equal_size else k - 1] < clusters).all()


def test_plain_clusters_make_the_last_table_as_large_as_the_largest_cell():
    rows = np.concatenate([np.zeros((50, 4)), 9 + np.arange(10)[:, None] * np.ones(4)])
    codes = clustered_codes(rows, 2, 8)
    assert table_sizes(codes)[1] == np.bincount(codes[:, 0]).max() >= 50


def test_bounded_clusters_are_rejected_if_there_are_more_tokens_than_codes():
    with pytest.raises(InputError, match="9 codes, too few for 10 tokens: give each table at least 4 rows"):
        clustered_codes(np.eye(10, dtype=np.float32), 2, 3, equal_size=True)


def test_the_same_seed_gives_the_same_codes_and_leaves_global_randomness_alone():
    rows = np.random.default_rng(0).normal(size=(300, 8))
    before = np.random.get_state()[1].copy()  # noqa: NPY002 (the state that must not move)
    first, second = (clustered_codes(rows, 3, equal_size=True, seed=4) for _ in range(2))
    assert (first == second).all()
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002


def test_similar_tokens_share_more_digits_than_others():
    draw = np.random.default_rng(1)
    rows = np.repeat(draw.normal(size=(40, 12)), 10, axis=0) + 0.05 * draw.normal(size=(400, 12))
    for equal_size in (False, True):
        alike, unlike = shared_digits(rows, clustered_codes(rows, 3, 10, equal_size=equal_size))
        assert alike > 2 * unlike


def test_a_token_whose_neighbours_are_all_zero_shares_no_digits():
    rows, codes = np.zeros((4, 3)), np.zeros((4, 2), np.int64)
    assert shared_digits(rows, codes) == (0, 0)
    rows[2] = 1
    assert shared_digits(rows, codes) == (0, 0)


def test_numbers_that_match_across_cells_recover_tables_that_arbitrary_numbers_lose():
    draw = np.random.default_rng(2)
    tables = [scale * draw.normal(size=(8, 4)) for scale in (50, 7, 1)]  # each level of clusters is one table's
    rows = np.array([np.concatenate(parts) for parts in itertools.product(*tables)], dtype=np.float32)
    matched, arbitrary = (
        reconstruction_error(rows[:, 4:], codes[:, 1:], fitted_tables(rows, codes, [8] * 3)[1:])
        for codes in (clustered_codes(rows, 3, 8, equal_size=True, matched=each) for each in (True, False))
    )
    assert matched < 0.25
    assert arbitrary > 0.7


def test_more_rounds_of_numbering_never_fit_worse(monkeypatch):
    """A round assigns clusters to the rows that they resemble, each counted once for every token, and fits the rows."""
    for seed in range(4):
        draw = np.random.default_rng(seed)  # few tokens lie far out, so that clusters differ in size
        rows = (draw.normal(size=(400, 9)) * draw.exponential(size=(400, 1)) ** 2).astype(np.float32)
        errors = []
        for rounds in range(1, 5):
            monkeypatch.setattr("relexify.systems.compression.codes.NUMBERING_ROUNDS", rounds)
            codes = clustered_codes(rows, 3, 6, seed=1)
            table = fitted_tables(rows, codes, table_sizes(codes, 6))[1]
            errors.append(float(((rows[:, 3:6] - table[codes[:, 1]]) ** 2).sum()))
        assert errors == sorted(errors, reverse=True)


@pytest.mark.usefixtures("cache")
def test_numbers_match_across_cells_unless_the_algorithm_of_the_paper_is_requested():
    rows = np.random.default_rng(4).normal(size=(200, 12)).astype(np.float32)
    options = Compression(k=3, clusters=7)
    assert np.array_equal(codes_of(rows, options), clustered_codes(rows, 3, 7, matched=True))
    assert np.array_equal(clustered_codes(rows, 3, 7), clustered_codes(rows, 3, 7, matched=True))
    printed = clustered_codes(rows, 3, 7, matched=False)
    assert np.array_equal(codes_of(rows, replace(options, matched=False)), printed)
    assert np.array_equal(_cached_codes(rows, options), codes_of(rows, options))
    assert np.array_equal(_cached_codes(rows, replace(options, matched=False)), printed), "from the wrong cache entry"
    assert not np.array_equal(printed, codes_of(rows, options))
    with pytest.raises(InputError, match="no clusters to number"):
        check_values(Compression(codes="digits", matched=False))


def test_equal_size_clusters_are_bounded_and_nearly_as_good_as_the_best_assignment():
    from scipy.optimize import linear_sum_assignment

    draw = np.random.default_rng(3)
    rows, centres = draw.normal(size=(200, 5)), draw.normal(size=(10, 5)) * draw.uniform(0.1, 2, size=(10, 1))
    costs = squared_distances(rows, centres)
    labels = bounded_labels(costs, 20)
    assert np.bincount(labels, minlength=10).tolist() == [20] * 10
    positions, columns = linear_sum_assignment(np.repeat(costs, 20, axis=1))
    best, free = np.repeat(costs, 20, axis=1)[positions, columns].sum(), costs.min(axis=1).sum()
    assert costs[np.arange(200), labels].sum() - best < 0.15 * (best - free)
    assert np.bincount(equal_size_labels(rows, centres)).max() <= 20


def test_rows_whose_second_choice_is_worst_come_first_if_a_cluster_is_full(monkeypatch):
    monkeypatch.setattr(equal_size_module, "_prices", lambda costs, seed: np.zeros(costs.shape[1]))
    costs = np.array([[0.0, 1, 7], [0, 5, 6], [0, 2, 8], [0, 9, 9]])
    assert bounded_labels(costs, 2).tolist() == [1, 0, 1, 0]


def test_fitted_tables_are_the_least_squares_solution():
    draw = np.random.default_rng(4)
    rows, weights = draw.normal(size=(60, 7)).astype(np.float32), draw.uniform(0.5, 3, 60)
    codes = digit_codes(60, 3, 4)
    for given_weights in (None, weights):
        found = fitted_tables(rows, codes, [4, 4, 4], weights=given_weights)
        scale = np.sqrt(np.ones(60) if given_weights is None else given_weights)[:, None]
        edges = np.cumsum([0, *split_width(7, 3)])
        for index, table in enumerate(found):
            picks = np.eye(4)[codes[:, index]]
            block = rows[:, edges[index] : edges[index + 1]]
            solved = np.linalg.lstsq(picks * scale, block * scale, rcond=None)[0]
            assert np.allclose(table, solved, atol=1e-5)


def test_a_digit_without_weight_is_averaged_equally_and_one_without_tokens_gets_the_mean():
    block = np.array([[1.0], [3.0], [8.0]], dtype=np.float32)
    means = block_means(block, np.array([0, 0, 1]), 3, weights=np.array([0.0, 0.0, 2.0]))
    assert means[:, 0].tolist() == [2.0, 8.0, 4.0]


@given(st.integers(1, 600), st.integers(1, 20))
def test_widths_are_even_and_nothing_is_padded(width, k):
    if k > width:
        with pytest.raises(InputError, match="cannot be split into"):
            split_width(width, k)
        return
    widths = split_width(width, k)
    assert sum(widths) == width
    assert max(widths) - min(widths) <= 1


def test_codes_that_repeat_or_are_not_digits_are_rejected():
    for codes, words in (
        (np.zeros((3, 2), dtype=int), "2 tokens have the code of another"),
        (np.zeros((3, 2)), "expected whole numbers"),
        (np.array([[-1], [0], [1]]), "negative"),
        (np.zeros((2, 2), dtype=int), "expected whole numbers"),
    ):
        with pytest.raises(InputError, match=words):
            check_codes(codes, 3)


@given(st.integers(1, 300), st.integers(1, 4), st.integers(0, 3), st.integers(0, 9))
def test_random_codes_are_unique_and_repeat_with_their_seed(tokens, k, extra, seed):
    base = smallest_base(tokens, k) + extra
    codes = random_codes(tokens, k, base, seed=seed)
    assert check_codes(codes, tokens).max() < base
    assert np.array_equal(codes, random_codes(tokens, k, base, seed=seed))


def test_random_codes_use_all_rows_of_tables_and_counting_does_not():
    assert table_sizes(digit_codes(5_000, 3, 40)) == [40, 40, 4]
    counts = [np.bincount(column, minlength=40) for column in random_codes(5_000, 3, 40).T]
    assert min(map(min, counts)) > 125 / 2
    assert not np.array_equal(random_codes(100, 3, seed=0), random_codes(100, 3, seed=1))


def test_random_codes_work_for_more_codes_than_64_bits_can_count():
    assert check_codes(random_codes(500, 40, 100), 500).shape == (500, 40)
    with pytest.raises(InputError, match="too few for 28 tokens"):
        random_codes(28, 3, 3)
