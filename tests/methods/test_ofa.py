"""OFA against the paper's equations, and its factorised form."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from relexify.errors import InputError
from relexify.evidence.vectors import SubwordVectors, WordVectors
from relexify.methods.ofa import factorise, low_rank_rows, ofa
from relexify.methods.parts.copying import shared
from relexify.mixture import Fallback, empty_mixture
from relexify.pretrained.loading import load_model
from relexify.systems.compression.folder import compress_folder
from relexify.systems.compression.options import Compression
from relexify.systems.transfer.options import Transfer
from relexify.systems.transfer.run import run_transfer
from relexify.tokens import vocabulary_of
from tests import pico

SOURCE = vocabulary_of(pico.byte_level())
TARGET = vocabulary_of(pico.byte_level(pico.sentences(words=pico.foreign_words(), seed=3)))
WORDS = [id for id, form in enumerate(TARGET.forms) if form.starts_word and len(form.text) > 3]


def subwords(vocabulary, seed):
    matrix = np.random.default_rng(seed).standard_normal((len(vocabulary), 6)).astype(np.float32)
    matrix[[form.is_special for form in vocabulary.forms]] = 0
    return SubwordVectors(vocabulary, matrix, matrix.any(axis=1))


def test_a_token_is_a_softmax_over_its_neighbours_and_shared_tokens_are_copied():
    source, target = subwords(SOURCE, 0), subwords(TARGET, 1)
    mixture = ofa(source, target, neighbours=3, temperature=0.2)
    copied = np.flatnonzero(shared(SOURCE, TARGET).known)
    assert mixture.sources(copied[0]) == shared(SOURCE, TARGET).sources(copied[0])
    word = target.matrix[WORDS[0]]
    cosines = {
        SOURCE.tokens[id]: float(row @ word / np.linalg.norm(row) / np.linalg.norm(word))
        for id, row in enumerate(source.matrix)
        if row.any()
    }
    nearest = sorted(cosines, key=lambda token: -cosines[token])[:3]
    total = sum(math.exp(cosines[token] / 0.2) for token in nearest)
    expected = {token: math.exp(cosines[token] / 0.2) / total for token in nearest}
    assert dict(mixture.sources(WORDS[0])) == pytest.approx(expected, abs=1e-5)


def test_factors_are_those_of_the_truncated_svd():
    embedding = np.random.default_rng(0).standard_normal((50, 8))
    coordinates, primitives = factorise(embedding, 3)
    left, values, right = np.linalg.svd(embedding, full_matrices=False)
    assert np.allclose(coordinates @ primitives, left[:, :3] * values[:3] @ right[:3], atol=1e-5)
    assert coordinates.shape == (50, 3)
    with pytest.raises(InputError, match="give 1 to 7"):
        factorise(embedding, 8)


def test_rows_of_low_rank_mix_the_coordinates_and_draw_the_others_among_them():
    source, target = subwords(SOURCE, 0), subwords(TARGET, 1)
    target.matrix[WORDS[1]] = 0
    target = replace(target, covered=target.matrix.any(axis=1))
    mixture = ofa(source, target)
    embedding = np.random.default_rng(2).standard_normal((len(SOURCE), 10)).astype(np.float32)
    rows = low_rank_rows(mixture, embedding, 4)
    coordinates, primitives = factorise(embedding, 4)
    assert np.linalg.matrix_rank(rows, tol=1e-3) == 4
    assert np.allclose(rows[WORDS[0]], mixture.weights[[WORDS[0]]] @ coordinates @ primitives, atol=1e-4)
    assert rows[WORDS[1]].any()
    assert not mixture.known[WORDS[1]]


def test_random_coordinates_have_the_mean_and_the_deviation_of_their_own_column():
    mixture = empty_mixture(SOURCE, TARGET, method="none", fallback=Fallback.SOURCE_ROWS)
    sizes = np.array([30.0, 10, 3, 1, 0.1, 0.1])
    embedding = (5 + np.random.default_rng(3).standard_normal((len(SOURCE), 6)) * sizes).astype(np.float32)
    coordinates, primitives = factorise(embedding, 4)
    drawn = low_rank_rows(mixture, embedding, 4) @ primitives.T
    assert drawn.std(axis=0) == pytest.approx(coordinates.std(axis=0), rel=0.15)
    assert np.allclose(drawn.mean(axis=0), coordinates.mean(axis=0), atol=0.2 * coordinates.std(axis=0))


def test_multilingual_vectors_are_used_as_they_are_and_words_count_alike(tmp_path, cache):
    pico.saved("gpt2", tmp_path / "model")
    words = pico.foreign_words()
    (tmp_path / "target.txt").write_text("\n".join(pico.sentences(300, words=words)))
    draw = np.random.default_rng(0)
    english = draw.standard_normal((len(words), 8)).astype(np.float32)
    counts = np.arange(1, len(words) + 1)
    WordVectors(pico._ENGLISH, english, counts).save(tmp_path / "en.safetensors")
    WordVectors(words, english, counts).save(tmp_path / "xx.safetensors")  # every word where its translation is
    options = Transfer(
        str(tmp_path / "model"),
        tmp_path / "out",
        tmp_path / "target.txt",
        method="ofa",
        source_vectors=tmp_path / "en.safetensors",
        target_vectors=tmp_path / "xx.safetensors",
        aligned_by="nothing",
        vocab_size=400,
        score=False,
    )
    result = run_transfer(options)
    assert result.rotation is not None
    assert np.array_equal(result.rotation.matrix, np.eye(8))
    factorised = run_transfer(replace(options, output=tmp_path / "factorised", options={"rank": 5}))
    rows = factorised.graft.model.get_input_embeddings().weight.detach().numpy()
    assert np.linalg.matrix_rank(rows, tol=1e-4) == 5
    # Saved as two factors, it is the same model.
    report = compress_folder(tmp_path / "factorised", tmp_path / "factors", Compression(rank=5))
    assert report.shapes == [(len(rows), 5), (5, rows.shape[1])]
    assert report.error == pytest.approx(0, abs=1e-5)
    assert np.allclose(load_model(tmp_path / "factors").get_input_embeddings().weight.detach(), rows, atol=1e-5)
