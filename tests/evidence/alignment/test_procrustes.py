"""Rotations: recovered, orthogonal, measured, validated, reduced and saved."""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import orthogonal_procrustes
from scipy.stats import ortho_group

from relexify.errors import EvidenceError, InputError
from relexify.evidence.alignment.procrustes import Rotation, align, align_randomly
from relexify.evidence.lexicon import BilingualLexicon
from relexify.evidence.vectors.word_vectors import WordVectors
from relexify.storage.files import Provenance

WORDS = 400


def vectors(matrix: np.ndarray, prefix: str) -> WordVectors:
    return WordVectors(words=tuple(f"{prefix}{i}" for i in range(len(matrix))), matrix=matrix.astype(np.float32))


def languages(width: int = 8, noise: float = 0.0, seed: int = 0) -> tuple[WordVectors, WordVectors, np.ndarray]:
    """Two vocabularies, the second a rotation of the first, and that rotation."""
    random = np.random.default_rng(seed)
    source = random.normal(size=(WORDS, width))
    planted = ortho_group.rvs(width, random_state=random)
    target = source @ planted + noise * random.normal(size=source.shape)
    return vectors(source, "s"), vectors(target, "t"), planted


def dictionary(entries: int = 200) -> BilingualLexicon:
    return BilingualLexicon(tuple((f"s{i}", f"t{i}") for i in range(entries)), "test.txt")


def cosines(source: WordVectors, target: WordVectors) -> np.ndarray:
    left, right = source.lookup(source.words), target.lookup(target.words)
    return np.sum(left * right, axis=1) / np.linalg.norm(left, axis=1) / np.linalg.norm(right, axis=1)


def test_a_planted_rotation_is_recovered_and_translates_all_held_out_words():
    source, target, planted = languages()
    rotation = align(source, target, dictionary())
    assert np.abs(rotation.matrix - planted).max() < 1e-5
    assert (rotation.pairs_used, rotation.coverage) == (200, 1.0)
    assert rotation.quality is not None
    assert (rotation.quality.precision, rotation.quality.csls_precision) == (1.0, 1.0)
    assert (rotation.quality.words, rotation.quality.candidates) == (20, WORDS)
    assert np.allclose(source.rotated(rotation).lookup(["s7"]), target.lookup(["t7"]), atol=1e-5)


@pytest.mark.parametrize("width", [8, 6])
def test_a_random_rotation_is_orthogonal_follows_its_seed_and_translates_nothing(width):
    source, target, _ = languages()
    target = vectors(target.matrix[:, :width], "t")
    first, again, other = (align_randomly(source, target, lexicon=dictionary(), seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(first.matrix, again.matrix)
    assert not np.allclose(first.matrix, other.matrix)
    assert np.allclose(first.matrix.T @ first.matrix, np.eye(width), atol=1e-10)
    assert first.quality.words == 200
    assert first.quality.precision < 0.05
    moved, fixed = first.apply(source, target)
    assert moved.width == fixed.width == width
    assert align_randomly(source, target).quality is None


def test_a_rotation_that_translates_nothing_is_reported(caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("relexify"), "propagate", True)
    source, target, _ = languages()
    align(source, target, dictionary())
    assert "translates none" not in caplog.text
    unrelated = vectors(np.random.default_rng(1).normal(size=(WORDS, 8)), "t")
    rotation = align(source, unrelated, dictionary())
    assert rotation.quality is not None
    assert "the rotation translates none of 20 held-out words" in caplog.text


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 12), st.integers(1, 60), st.integers(0, 2**32 - 1))
def test_the_rotation_is_orthogonal_however_few_or_bad_the_pairs(width, entries, seed):
    random = np.random.default_rng(seed)
    source = vectors(random.normal(size=(60, width)), "s")
    target = vectors(random.normal(size=(60, width)), "t")
    matrix = align(source, target, dictionary(entries), held_out=0).matrix
    assert np.allclose(matrix.T @ matrix, np.eye(width), atol=1e-9)


def test_the_rotation_equals_procrustes_on_the_stacked_case_variants():
    random = np.random.default_rng(1)
    source = WordVectors(words=("berlin", "Berlin", "house", "Cat"), matrix=random.normal(size=(4, 3)).astype("f4"))
    target = WordVectors(words=("Berlin", "haus", "Haus", "katze"), matrix=random.normal(size=(4, 3)).astype("f4"))
    lexicon = BilingualLexicon((("Berlin", "Berlin"), ("house", "Haus"), ("cat", "Katze"), ("dog", "Hund")))
    left, right = [], []
    for first, second in lexicon.pairs:
        for word in (first, first.lower(), first.title()):
            for other in (second, second.lower(), second.title()):
                if word in source.words and other in target.words:
                    left.append(source.matrix[source.words.index(word)].astype(float))
                    right.append(target.matrix[target.words.index(other)].astype(float))
    expected, _ = orthogonal_procrustes(np.array(left), np.array(right))
    rotation = align(source, target, lexicon)
    assert np.allclose(rotation.matrix, expected, atol=1e-10)
    assert rotation.pairs_used == 3
    assert rotation.coverage == 0.75


def test_the_rotation_is_fitted_on_all_pairs_and_its_quality_without_the_held_out_ones():
    source, target, _ = languages(noise=0.4)
    with_quality = align(source, target, dictionary(), held_out=0.3)
    assert np.array_equal(with_quality.matrix, align(source, target, dictionary(), held_out=0).matrix)
    assert with_quality.quality is not None
    assert 0 < with_quality.quality.precision < 1
    assert with_quality.quality == align(source, target, dictionary(), held_out=0.3).quality


def test_random_vectors_get_no_credit_for_pairs_the_rotation_was_fitted_on():
    random = np.random.default_rng(0)
    source, target = (vectors(random.normal(size=(WORDS, 40)), prefix) for prefix in "st")
    quality = align(source, target, dictionary(), held_out=0.5).quality
    assert quality is not None
    assert quality.precision < 0.1


def test_quality_is_not_measured_on_too_few_words():
    source, target, _ = languages()
    assert align(source, target, dictionary(50)).quality is None
    assert align(source, target, dictionary(), held_out=0).quality is None


def test_the_other_direction_is_the_transpose_and_moves_the_target():
    source, target, planted = languages()
    back = align(source, target, dictionary(), direction="target-to-source")
    assert np.allclose(back.matrix, planted.T, atol=1e-5)
    moved_source, moved_target = back.apply(source, target)
    assert moved_source is source
    assert cosines(moved_source, moved_target).min() > 0.999


@pytest.mark.parametrize("direction", ["source-to-target", "target-to-source"])
@pytest.mark.parametrize("wider", ["source", "target"])
def test_vectors_of_two_widths_meet_in_the_narrower_space(direction, wider):
    narrow, other, _ = languages(width=6)
    wide_matrix = np.hstack([np.asarray(other.matrix), 0.01 * np.random.default_rng(5).normal(size=(WORDS, 3))])
    wide = wide_matrix @ ortho_group.rvs(9, random_state=2)
    source = vectors(wide if wider == "source" else np.asarray(narrow.matrix), "s")
    target = vectors(wide if wider == "target" else np.asarray(narrow.matrix), "t")
    rotation = align(source, target, dictionary(), reduce=True, direction=direction)
    moved_source, moved_target = rotation.apply(source, target)
    assert moved_source.width == moved_target.width == 6
    assert cosines(moved_source, moved_target).min() > 0.999
    assert (rotation.source_reduction is None) == (wider == "target")


def test_two_widths_are_rejected_with_both_numbers_without_reduce():
    source, target = vectors(np.ones((3, 5)), "s"), vectors(np.ones((3, 4)), "t")
    with pytest.raises(InputError, match=r"5 components and the target vectors 4: .*`reduce`"):
        align(source, target, dictionary(3))


def test_a_dictionary_of_other_languages_is_rejected():
    source, target, _ = languages()
    with pytest.raises(EvidenceError, match=r"none of the 1 entries of latin.txt has a vector on both sides"):
        align(source, target, BilingualLexicon((("domus", "casa"),), "latin.txt"))


@pytest.mark.parametrize("right_way", [0, 5])
def test_swapped_columns_are_noticed_even_if_a_few_words_fit(right_way):
    source, target, _ = languages()
    swapped = dictionary(100).swapped().merged(dictionary(right_way))
    with pytest.raises(InputError, match=f"look swapped: {right_way} of .* but 100 the other way.*`swapped`"):
        align(source, target, swapped)


def test_too_few_pairs_give_a_warning_with_the_number_needed(caplog):
    source, target, _ = languages()
    with caplog.at_level(logging.WARNING):
        align(source, target, dictionary(15))
    assert "only 15 entries of test.txt" in caplog.text
    assert "width 8 needs at least 16" in caplog.text
    assert "BilingualLexicon" not in caplog.text, "the message is shown by the command line, too"
    caplog.clear()
    align(source, target, replace(dictionary(15), name="identical words"))
    assert "give a dictionary to a method that takes one, or extend these words" in caplog.text
    caplog.clear()
    align(source, target, dictionary(16))
    align(source, target, dictionary(15), warn=False)
    assert not caplog.records


@pytest.mark.parametrize("share", [-0.1, 1.0])
def test_a_held_out_share_out_of_range_is_rejected(share):
    source, target, _ = languages()
    with pytest.raises(InputError, match="held-out share"):
        align(source, target, dictionary(), held_out=share)


@pytest.mark.parametrize("measured", [True, False])
def test_a_saved_rotation_loads_bit_for_bit(tmp_path, measured):
    source, target, _ = languages()
    wide = vectors(np.hstack([np.asarray(target.matrix)] * 2), "t")
    rotation = align(source, wide, dictionary(), reduce=True, held_out=0.1 if measured else 0)
    path = rotation.save(tmp_path / "rotation.safetensors", provenance=Provenance("0.1.0", seed=0))
    loaded = Rotation.load(path)
    assert np.array_equal(loaded.matrix, rotation.matrix)
    assert loaded.target_reduction is not None
    assert np.array_equal(loaded.target_reduction, rotation.target_reduction)
    assert loaded.source_reduction is None
    assert loaded.summary() == rotation.summary()


@pytest.mark.parametrize("side", ["source", "target"])
def test_vectors_that_are_all_zero_have_no_rotation(side):
    source, target, _ = languages()
    zero = {"source": source, "target": target}[side]
    zero.matrix[:] = 0
    with pytest.raises(EvidenceError, match=f"all {side} words of test.txt have a vector of zeros"):
        align(source, target, dictionary())
