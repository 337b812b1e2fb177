"""Self-learning: a few pairs become many, and a rotation that is right already stays."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from relexify.evidence.alignment import Rotation, align
from relexify.evidence.alignment.unsupervised.self_learning import self_learn
from relexify.evidence.lexicon import BilingualLexicon
from relexify.evidence.vectors import WordVectors
from tests.evidence.alignment.clouds import dictionary, turned, words_of

WORDS, WIDTH = 900, 20


@pytest.fixture(scope="module")
def languages() -> tuple[WordVectors, WordVectors, BilingualLexicon]:
    source, target, truth = turned(WORDS, WIDTH, 0, noise=0.4)
    return words_of(source, "s"), words_of(target, "t"), dictionary(truth)


def first(lexicon: BilingualLexicon, entries: int) -> BilingualLexicon:
    return BilingualLexicon(lexicon.pairs[:entries])


def translated(rotation: Rotation, source: WordVectors, target: WordVectors, lexicon: BilingualLexicon) -> float:
    """The share of the words whose nearest neighbour is their translation."""
    left, right = (side.lookup(side.words) for side in rotation.apply(source, target))
    cosines = left @ right.T / np.linalg.norm(left, axis=1)[:, None] / np.linalg.norm(right, axis=1)
    found = (target.words[row] for row in cosines.argmax(axis=1))
    return float(np.mean([word == expected for word, (_, expected) in zip(found, lexicon.pairs, strict=True)]))


def test_a_dozen_pairs_translate_nearly_as_well_as_all_of_them(languages):
    source, target, lexicon = languages
    few = first(lexicon, 12)
    plain = translated(align(source, target, few, held_out=0), source, target, lexicon)
    learned = translated(align(source, target, few, refinement=self_learn, held_out=0), source, target, lexicon)
    best = translated(align(source, target, lexicon, held_out=0), source, target, lexicon)
    assert plain < 0.5 * best
    assert learned > 0.9 * best


def test_a_small_dictionary_is_no_reason_for_a_warning(languages, caplog):
    source, target, lexicon = languages
    with caplog.at_level(logging.WARNING):
        align(source, target, first(lexicon, 12), refinement=self_learn, held_out=0)
        assert not caplog.records
        align(source, target, first(lexicon, 12), held_out=0)
    assert "extend it by self-learning" in caplog.text


def test_the_result_is_orthogonal_in_either_direction(languages):
    source, target, lexicon = languages
    few = first(lexicon, 50)
    there = align(source, target, few, refinement=self_learn, held_out=0)
    back = align(source, target, few, refinement=self_learn, direction="target-to-source", held_out=0)
    assert np.allclose(there.matrix @ there.matrix.T, np.eye(WIDTH), atol=1e-9)
    assert np.array_equal(back.matrix, there.matrix.T)
    assert there.pairs_used == 50


def test_the_quality_is_that_of_a_rotation_that_has_not_seen_the_held_out_pairs(languages):
    source, target, lexicon = languages
    seen = []

    def refinement(left: WordVectors, right: WordVectors, fitted: np.ndarray) -> np.ndarray:
        seen.append(fitted)
        return self_learn(left, right, fitted)

    rotation = align(source, target, first(lexicon, 200), refinement=refinement, held_out=0.2)
    assert rotation.quality is not None
    assert rotation.quality.words == 40
    assert len(seen) == 2
    assert not np.allclose(seen[0], seen[1])


def test_vectors_of_different_width_are_reduced_first(languages):
    source, target, lexicon = languages
    matrix = np.hstack([source.lookup(source.words), np.zeros((WORDS, 3), np.float32)])
    rotation = align(words_of(matrix, "s"), target, lexicon, refinement=self_learn, reduce=True, held_out=0)
    assert rotation.matrix.shape == (WIDTH + 3, WIDTH)


def test_words_without_a_vector_are_not_paired(languages):
    source, target, lexicon = languages
    left, right = source.lookup(source.words), target.lookup(target.words)
    empty = np.zeros((30, WIDTH), np.float32)
    with_empty = words_of(np.vstack([left, empty]), "s"), words_of(np.vstack([right, empty]), "t")
    few = first(lexicon, 50)
    expected = align(source, target, few, refinement=self_learn, held_out=0)
    found = align(*with_empty, few, refinement=self_learn, held_out=0)
    assert np.allclose(found.matrix, expected.matrix, atol=1e-6)
