"""Translation by nearest neighbours, against loops."""

from __future__ import annotations

import numpy as np
import pytest

from relexify.evidence.lexicon import csls_nearest, translation_quality


def cosine(left: np.ndarray, right: np.ndarray) -> float:
    return float(left @ right / (np.linalg.norm(left) * np.linalg.norm(right)))


@pytest.mark.parametrize("seed", range(3))
def test_csls_equals_its_equation_written_out_as_loops(seed):
    random = np.random.default_rng(seed)
    queries, keys, background = (random.normal(size=(n, 6)) for n in (9, 40, 30))
    for row, query in enumerate(queries):
        near_query = np.mean(sorted((cosine(query, key) for key in keys), reverse=True)[:10])
        scores = []
        for key in keys:
            near_key = np.mean(sorted((cosine(key, other) for other in background), reverse=True)[:10])
            scores.append(2 * cosine(query, key) - near_query - near_key)
        assert csls_nearest(queries, keys, background)[row] == int(np.argmax(scores))


def test_csls_never_answers_with_a_zero_vector():
    queries = -np.eye(2)
    keys = np.vstack([np.zeros((1, 2)), np.eye(2)])
    assert 0 not in csls_nearest(queries, keys, np.eye(2))


def test_any_listed_translation_counts_and_unlisted_ones_do_not():
    keys = np.eye(4)
    quality = translation_quality(keys[:3], keys, keys, [frozenset({0, 3}), frozenset({3, 1}), frozenset({0})])
    assert quality.precision == pytest.approx(2 / 3)
    assert quality.csls_precision == pytest.approx(2 / 3)
    assert (quality.words, quality.candidates) == (3, 4)


def test_csls_avoids_a_hub_that_cosine_prefers():
    angles = np.deg2rad([0.0, 20.0])
    background = np.array([[np.cos(a), np.sin(a)] for a in np.deg2rad([8, 9, 10, 11, 12])])
    keys = np.array([[np.cos(a), np.sin(a)] for a in (np.deg2rad(10.0), np.deg2rad(-14.0), np.deg2rad(34.0))])
    queries = np.array([[np.cos(a), np.sin(a)] for a in angles])
    quality = translation_quality(queries, keys, background, [frozenset({1}), frozenset({2})])
    assert (quality.precision, quality.csls_precision) == (0.0, 1.0)
