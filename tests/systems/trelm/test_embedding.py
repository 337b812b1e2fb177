"""Static vectors in a model's embedding space."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from relexify.errors import EvidenceError, InputError
from relexify.evidence.alignment.unsupervised.options import AdversarialTraining
from relexify.evidence.vectors import WordVectors
from relexify.systems.trelm.embedding import (
    PENALTIES,
    embedding_rows,
    fit_linear_map,
    identical_tokens,
    static_vectors,
)
from relexify.systems.trelm.method_options import TrelmInitialisation
from relexify.tokens import TokenForm, vocabulary_of
from tests import pico
from tests.evidence.alignment.clouds import cloud, turned

EASY = AdversarialTraining(frequency_map=False, hidden=16, steps=20, epochs=1, restarts=1, judged=800)


def test_aligned_rows_land_on_the_models_own_rows_of_the_same_tokens_without_any_pairs():
    static, shuffled, truth = turned(800, 10, 0)
    anchor = 0.02 * shuffled + 0.3  # an embedding has a scale and a common direction of its own
    turned_rows, found = embedding_rows(static, anchor, "fasttext-align", by="orthogonal", options=EASY)
    assert found is not None
    assert found.converged
    plain, nothing = embedding_rows(static, anchor, "fasttext", options=EASY)
    assert nothing is None
    for rows in (turned_rows, plain):
        assert np.allclose(rows.mean(axis=0), anchor.mean(axis=0), atol=0.01)
        assert rows.std() == pytest.approx(anchor.std(), rel=0.2)

    def share_right(rows: np.ndarray) -> float:
        left, right = rows - anchor.mean(axis=0), anchor - anchor.mean(axis=0)
        cosines = (left / np.linalg.norm(left, axis=1)[:, None]) @ (right / np.linalg.norm(right, axis=1)[:, None]).T
        return float(np.mean(cosines.argmax(axis=1) == truth))

    predicted, _ = embedding_rows(static, anchor, "fasttext-align", options=EASY)
    assert share_right(turned_rows) > 0.9
    assert share_right(predicted) > 0.9
    assert share_right(plain) < 0.1


def test_a_linear_map_comes_closer_to_rows_outside_the_pairs_than_an_orthogonal_one():
    random = np.random.default_rng(0)
    static = random.normal(size=(900, 12))
    scales = np.geomspace(1, 0.05, 12)  # a model's rows vary in some directions, and vectors explain a part of them
    true_map = random.normal(size=(12, 12)) * scales
    anchor = 0.3 + 0.05 * (static @ true_map + 3 * scales * random.normal(size=(900, 12)))
    pairs = np.stack([np.arange(300)] * 2, axis=1)
    close = {}
    for by in ("linear", "orthogonal"):
        rows, _ = embedding_rows(static, anchor, "fasttext-align", by=by, pairs=pairs, options=EASY)
        left, right = (each - anchor.mean(axis=0) for each in (rows, anchor))
        assert left.std() == pytest.approx(right.std(), rel=0.1)
        cosines = np.sum(left * right, axis=1) / np.linalg.norm(left, axis=1) / np.linalg.norm(right, axis=1)
        close[by] = float(cosines[300:].mean())
    assert close["linear"] > 1.2 * close["orthogonal"] > 0.1


def test_vectors_that_explain_nothing_are_mapped_close_to_the_models_mean(caplog):
    static, anchor = cloud(800, 10, 0), 0.02 * cloud(800, 10, 50) + 0.3
    pairs = np.stack([np.arange(400)] * 2, axis=1)
    predicted, turned_rows = (
        embedding_rows(static, anchor, "fasttext-align", by=by, pairs=pairs, options=EASY)[0] - anchor.mean(axis=0)
        for by in ("linear", "orthogonal")
    )
    assert predicted.std() < 0.2 * turned_rows.std()
    assert "400 common tokens do not explain any variance" in caplog.text


@pytest.mark.parametrize("by", ["linear", "orthogonal"])
def test_a_model_whose_rows_are_all_alike_gives_rows_like_them(by):
    anchor = np.full((60, 6), 0.3)
    pairs = np.stack([np.arange(20)] * 2, axis=1)
    rows, _ = embedding_rows(cloud(50, 6, 0), anchor, "fasttext-align", by=by, pairs=pairs, options=EASY)
    assert np.allclose(rows, 0.3)


def test_the_mean_of_the_pairs_does_not_count_as_explained(caplog):
    random = np.random.default_rng(0)
    common = np.linspace(1, 2, 10)  # of the pairs, on both sides, and of no other token
    static, anchor = random.normal(size=(900, 10)), random.normal(size=(900, 10))
    static[:300] += common
    anchor[:300] += common
    pairs = np.stack([np.arange(300)] * 2, axis=1)
    embedding_rows(static, anchor, "fasttext-align", pairs=pairs, options=EASY)
    assert "300 common tokens do not explain any variance" in caplog.text


def test_zero_vectors_do_not_shift_the_tokens_that_a_linear_map_is_fitted_to():
    static, shuffled, _ = turned(800, 10, 0)
    without, _ = embedding_rows(static, shuffled, "fasttext-align", options=EASY)
    empty = np.zeros((3, 10))
    mixed = np.concatenate([static[:5], empty, static[5:]])
    rows, _ = embedding_rows(mixed, shuffled, "fasttext-align", options=EASY)
    assert np.allclose(np.delete(rows, [5, 6, 7], axis=0), without, atol=1e-3 * shuffled.std())
    assert np.allclose(rows[5:8], shuffled.mean(axis=0))


def test_vectors_that_are_unlike_the_embedding_are_rejected_only_with_insist():
    static, anchor = cloud(400, 6, 0), cloud(400, 6, 50)
    with pytest.raises(EvidenceError, match="could not be aligned"):
        embedding_rows(static, anchor, "fasttext-align", options=EASY)
    rows, found = embedding_rows(static, anchor, "fasttext-align", options=EASY, insist=False)
    assert rows.shape == (400, 6)
    assert found is not None
    assert not found.converged


def test_each_initialisation_of_the_vocabulary_gives_rows_of_the_tokens_that_have_vectors():
    tokenizer = pico.byte_level()
    vocabulary = vocabulary_of(tokenizer)
    tokens = [token for token in vocabulary.tokens if token][-300:]
    vectors = WordVectors([*tokens, "no token"], cloud(301, 4, 0).astype(np.float32))
    anchor = cloud(300, 4, 1).astype(np.float32)
    options = replace(EASY, judged=300)
    drawn = {}
    for initialisation in ("random", "random-align", "fasttext", "fasttext-align"):
        given = None if initialisation.startswith("random") else vectors
        ids, static = static_vectors(vocabulary, given, width=4)
        rows, found = embedding_rows(static, anchor, initialisation, by="orthogonal", options=options, insist=False)
        assert (found is not None) == initialisation.endswith("-align")
        drawn[initialisation] = ids.tolist(), rows
    expected = [id for id in map(vocabulary.ids.__getitem__, tokens) if not vocabulary.forms[id].is_special]
    for initialisation in ("fasttext", "fasttext-align"):
        assert drawn[initialisation][0] == expected
    plain = [id for id, form in enumerate(vocabulary.forms) if not form.is_special]
    for initialisation in ("random", "random-align"):
        assert drawn[initialisation][0] == plain
    assert_turned(drawn["random"][1], drawn["random-align"][1], anchor)
    assert_turned(drawn["fasttext"][1], drawn["fasttext-align"][1], anchor)


def assert_turned(rows: np.ndarray, others: np.ndarray, anchor: np.ndarray) -> None:
    """Assert that the two differ only by a rotation about the model's mean."""
    assert not np.allclose(rows, others, atol=0.1)
    left, right = (each - anchor.mean(axis=0) for each in (rows, others))
    assert np.allclose(left @ left.T, right @ right.T, rtol=1e-3, atol=1e-3 * float(np.mean(left**2)))


def test_random_rows_need_no_vectors():
    vocabulary = vocabulary_of(pico.byte_level())
    anchor = cloud(300, 4, 1).astype(np.float32)
    drawn = [static_vectors(vocabulary, None, width=4, seed=seed)[1] for seed in (0, 0, 1)]
    rows, again, other = (embedding_rows(static, anchor, "random")[0] for static in drawn)
    assert np.array_equal(rows, again)
    assert not np.allclose(rows, other)
    assert np.allclose(rows.mean(axis=0), anchor.mean(axis=0), atol=0.15 * anchor.std())


def test_few_tokens_suffice_without_a_map():
    static, anchor = cloud(20, 6, 0), cloud(20, 6, 1)
    for initialisation in ("random", "fasttext"):
        rows, found = embedding_rows(static, anchor, initialisation)
        assert found is None
        assert rows.shape == (20, 6)
    with pytest.raises(EvidenceError, match=r"20 words .* identical"):
        embedding_rows(static, anchor, "fasttext-align")


def test_an_unknown_initialisation_or_map_is_rejected():
    with pytest.raises(InputError, match="glove"):
        TrelmInitialisation(initialisation="glove")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="`map=bent` is not possible: choose linear or orthogonal"):
        TrelmInitialisation(map="bent")  # type: ignore[arg-type]


def test_given_pairs_bring_rows_onto_the_models_own_without_a_search():
    static, shuffled, truth = turned(800, 10, 0)
    anchor = 0.02 * shuffled + 0.3
    pairs = np.stack([np.arange(40), truth[:40]], axis=1)
    rows, found = embedding_rows(static, anchor, "fasttext-align", pairs=pairs, options=EASY)
    assert found is None
    cosines = np.sum((rows - anchor.mean(axis=0)) * (anchor[truth] - anchor.mean(axis=0)), axis=1)
    cosines /= np.linalg.norm(rows - anchor.mean(axis=0), axis=1)
    cosines /= np.linalg.norm(anchor[truth] - anchor.mean(axis=0), axis=1)
    assert cosines[40:].mean() > 0.9  # those outside the pairs
    with pytest.raises(EvidenceError, match="9 tokens in common"):
        embedding_rows(static, anchor, "fasttext-align", pairs=pairs[:9], options=EASY)


def test_only_tokens_of_several_letters_in_the_same_part_of_a_word_are_identical():
    target = [TokenForm("the", True), TokenForm("ing"), TokenForm("a", True), TokenForm("haus", True)]
    source = [TokenForm("ing", True), TokenForm("a", True), TokenForm("ing"), TokenForm("the", True)]
    assert identical_tokens(target, source).tolist() == [[0, 3], [1, 2]]
    assert identical_tokens(target[3:], source).shape == (0, 2)


def test_rows_are_ordered_by_counts_if_given():
    tokenizer = pico.byte_level()
    vocabulary = vocabulary_of(tokenizer)
    ids = [id for id, form in enumerate(vocabulary.forms) if not form.is_special][:50]
    vectors = WordVectors([vocabulary.tokens[id] for id in ids], cloud(50, 4, 0).astype(np.float32))
    counts = np.random.default_rng(0).integers(0, 5, len(vocabulary.forms))
    found, _ = static_vectors(vocabulary, vectors, width=4, counts=counts)
    assert found.tolist() == sorted(ids, key=lambda id: -counts[id])


@pytest.mark.parametrize("initialisation", ["random", "fasttext"])
def test_rows_without_a_map_need_no_more_tokens_than_there_are(initialisation):
    random = np.random.default_rng(0)
    static, anchor = random.normal(size=(30, 48)), random.normal(size=(60, 48))
    rows, found = embedding_rows(static, anchor, initialisation)
    assert (rows.shape, found) == ((30, 48), None)
    with pytest.raises(EvidenceError, match="at least 240"):
        embedding_rows(static, anchor, f"{initialisation}-align")


@pytest.mark.parametrize("noise", [0.01, 1.0, 5.0])
def test_the_penalty_is_the_one_under_which_each_pair_is_predicted_best_by_the_others(noise):
    random = np.random.default_rng(0)
    rows, true_map = random.normal(size=(60, 5)), random.normal(size=(5, 5))
    deviations = (rows @ true_map + noise * random.normal(size=(60, 5)))[::-1]
    pairs = np.stack([np.arange(40), 59 - np.arange(40)], axis=1)
    known, wanted = rows[:40], deviations[::-1][:40]

    def ridge(left: np.ndarray, right: np.ndarray, penalty: float) -> np.ndarray:
        return np.linalg.solve(left.T @ left + 40 * penalty * np.eye(5), left.T @ right)

    def squared_error(penalty: float) -> float:
        others = [np.arange(40) != one for one in range(40)]
        maps = [ridge(known[rest], wanted[rest], penalty) for rest in others]
        return float(np.mean([(known[one] @ maps[one] - wanted[one]) ** 2 for one in range(40)]))

    best = min(PENALTIES, key=squared_error)
    matrix, explained = fit_linear_map(rows, deviations, pairs)
    assert np.allclose(matrix, ridge(known, wanted, best))
    assert explained == pytest.approx(1 - squared_error(best) / np.mean((wanted - wanted.mean(axis=0)) ** 2))


def test_the_less_vectors_explain_the_shorter_are_the_rows():
    random = np.random.default_rng(0)
    rows, true_map, drawn = random.normal(size=(500, 6)), random.normal(size=(6, 6)), random.normal(size=(500, 6))
    pairs = np.stack([np.arange(500)] * 2, axis=1)
    lengths, shares = [], []
    for noise in (0.0, 6.0, 300.0):
        deviations = rows @ true_map + noise * drawn
        deviations /= deviations.std()
        matrix, explained = fit_linear_map(rows, deviations, pairs)
        lengths.append(float((rows @ matrix).std()))
        shares.append(explained)
    assert lengths[0] == pytest.approx(1, abs=0.01)
    assert 1 > 2 * lengths[1] > 4 * lengths[2]
    assert shares[0] > 0.99
    assert shares[1] == pytest.approx(lengths[1] ** 2, abs=0.05)
    assert shares[2] < 0.01


def test_no_pairs_predict_nothing():
    matrix, explained = fit_linear_map(np.ones((4, 3)), np.ones((5, 3)), np.zeros((0, 2), np.int64))
    assert not matrix.any()
    assert explained == 0
