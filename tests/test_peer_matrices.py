"""Matrices that the package `wechsel` computed, where they are at hand (`$RELEXIFY_DATA/../oracle`).

Two things in them are not determined by the method. Tokens such as `back` and `Ġback` have one and the same vector, so
that where they meet at rank k either of them is right; and the dictionary leaves the weakest directions of the
rotation to float32 rounding. Everything else must agree.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from relexify.evidence.alignment import align
from relexify.evidence.lexicon import BilingualLexicon
from relexify.evidence.vectors import subword_vectors
from relexify.evidence.vectors.formats.loading import load_vectors
from relexify.methods.wechsel import wechsel
from relexify.neighbours import nearest, normalise_rows

ORACLE = Path(os.environ.get("RELEXIFY_DATA", "../shared/data")).parent / "oracle"
pytestmark = pytest.mark.skipif(not ORACLE.is_dir(), reason="the peer's matrices are not on this machine")

CASES = [
    ("ngrams_k10_t0.1", 10, 0.1, "ngrams"),
    ("ngrams_k5_t0.3", 5, 0.3, "ngrams"),
    ("words_k10_t0.1", 10, 0.1, "words"),
]


@pytest.fixture(scope="module")
def case():
    from transformers import PreTrainedTokenizerFast

    tokenizers = [
        PreTrainedTokenizerFast(tokenizer_file=str(ORACLE / f"{side}.tokenizer.json")) for side in ("en", "sw")
    ]
    return tokenizers, [load_vectors(ORACLE / f"{side}.bin") for side in ("en", "sw")]


def test_the_rotation_agrees_in_every_direction_that_the_dictionary_determines(case):
    _, (source, target) = case
    ours = align(source, target, BilingualLexicon.load(ORACLE / "dictionary.txt")).matrix
    theirs = np.load(ORACLE / "rotation.npy")
    assert np.abs(ours.T @ ours - np.eye(len(ours))).max() < 1e-10
    words = source.lookup(source.words)
    assert np.abs(normalise_rows(words @ ours) - normalise_rows(words @ theirs)).max() < 1e-2
    cosines = np.sum(normalise_rows(words @ ours) * normalise_rows(words @ theirs), axis=1)
    assert cosines.min() > 1 - 1e-4


@pytest.mark.parametrize(("name", "neighbours", "temperature", "subwords"), CASES)
def test_rows_agree_but_for_ties_at_the_last_neighbour(case, name, neighbours, temperature, subwords):
    (source_tokenizer, target_tokenizer), (source, target) = case
    source = source.rotated(np.load(ORACLE / "rotation.npy"))
    options = {"neighbours": neighbours, "temperature": temperature, "subwords": subwords}
    mixture = wechsel(source_tokenizer, target_tokenizer, source, target, **options)
    rows = mixture.apply(np.load(ORACLE / "source_embeddings.npy"))
    expected = np.load(ORACLE / f"expected.{name}.npy")
    missing = set(json.loads((ORACLE / f"not_found.{name}.json").read_text()))
    target_vectors, source_vectors = (
        subword_vectors(target_tokenizer, target, subwords),
        subword_vectors(source_tokenizer, source, subwords),
    )
    comparable = np.array(
        [
            token not in missing and not form.is_byte and not form.is_special
            for token, form in zip(target_vectors.vocabulary.tokens, target_vectors.vocabulary.forms, strict=True)
        ]
    )
    _, similarities = nearest(target_vectors.matrix, source_vectors.matrix, neighbours + 1)
    tied = similarities[:, -2] - similarities[:, -1] < 1e-5
    deviation = np.abs(rows - expected).max(axis=1)
    assert deviation[comparable & ~tied].max() < 1e-3
    assert np.mean(deviation[comparable & tied] < 1e-3) > 0.3
    assert (comparable & ~tied).sum() > 1500
