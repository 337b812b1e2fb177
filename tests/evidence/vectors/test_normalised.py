"""Vectors of uncased tokens from vectors of cased words, against the equations written out as loops."""

from __future__ import annotations

import numpy as np
import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from relexify.evidence.vectors import Ngrams, WordVectors, subwords_from_ngrams
from relexify.tokens import vocabulary_of
from tests import pico

WORDS = ["Herr", "und", "Und", "über", "Überfluss", "SPD", "fahren", "Haus", "STRASSE"]
COUNTS = np.array([90, 80, 20, 15, 9, 7, 5, 4, 2])
BUCKETS = 100_000


def vectors_of(minimum=3, *, all_buckets=True):
    draw = np.random.default_rng(0)
    matrix = draw.normal(size=(len(WORDS), 8)).astype(np.float32)
    rows = draw.normal(size=(BUCKETS, 8)).astype(np.float32)
    vectors = WordVectors(WORDS, matrix, COUNTS, Ngrams(rows, minimum, 6, BUCKETS))
    if all_buckets:
        return vectors
    _, used = vectors.ngrams.rows_of(WORDS)
    known = np.unique(used).astype(np.int64)
    return WordVectors(WORDS, matrix, COUNTS, Ngrams(rows[known], minimum, 6, BUCKETS, known))


def wordpiece(tokens, normaliser=None):
    names = {token: id for id, token in enumerate(["[UNK]", *tokens])}
    backend = Tokenizer(models.WordPiece(names, unk_token="[UNK]"))
    backend.normalizer = normaliser or normalizers.BertNormalizer(lowercase=True)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return backend


def token_vectors(tokens, vectors, normaliser=None):
    return subwords_from_ngrams(wordpiece(tokens, normaliser), vectors).matrix[1:]


@pytest.mark.parametrize("all_buckets", [True, False])
def test_an_uncased_token_is_the_mean_of_its_spellings_by_frequency(all_buckets):
    vectors = vectors_of(all_buckets=all_buckets)
    found = token_vectors(["herr", "und", "uber", "spd", "##herr"], vectors)
    herr, lower, title, uber, spd = vectors.lookup(["Herr", "und", "Und", "über", "SPD"])
    expected = [herr, 0.8 * lower + 0.2 * title, uber, spd, herr]
    assert np.allclose(found, expected, atol=1e-6)


def test_ngrams_of_an_uncased_piece_are_means_over_the_words_that_contain_them():
    vectors = vectors_of(all_buckets=False)
    piece = "uberf"
    normalised = [word.lower().replace("ü", "u") for word in WORDS]
    means = []
    for length in range(3, 7):
        for start in range(len(piece) + 3 - length):
            wanted = f"<{piece}>"[start : start + length]
            total, weight = np.zeros(8), 0.0
            for word, name, count in zip(WORDS, normalised, COUNTS, strict=True):
                for position in range(len(name) + 3 - length):
                    if f"<{name}>"[position : position + length] == wanted:
                        ngram = f"<{word}>"[position : position + length]
                        total += count * ngram_row(vectors, ngram)
                        weight += count
            if weight:
                means.append(total / weight)
    assert len(means) > 5
    assert np.allclose(token_vectors([piece], vectors)[0], np.mean(means, axis=0), atol=1e-6)


def ngram_row(vectors, ngram):
    from relexify.evidence.vectors.ngrams import _hash_runs  # the hash alone, without marks around the word

    data = np.frombuffer(ngram.encode(), np.uint8)
    hashed = _hash_runs(data, np.arange(len(ngram), 0, -1), len(ngram), len(ngram))[0, 0]
    row = np.searchsorted(vectors.ngrams.known, int(hashed) % BUCKETS)
    return vectors.ngrams.matrix[row]


def test_an_uncased_token_finds_its_word_in_rotated_vectors_too():
    rotation = np.linalg.qr(np.random.default_rng(1).normal(size=(8, 8)))[0]
    vectors = vectors_of()
    tokens = ["herr", "uberf", "haus"]
    expected = token_vectors(tokens, vectors) @ rotation.astype(np.float32)
    assert np.allclose(token_vectors(tokens, vectors.rotated(rotation)), expected, atol=1e-5)


def test_tokens_of_a_cased_tokenizer_are_looked_up_bit_for_bit():
    vectors = vectors_of()
    for tokenizer in (pico.byte_level(), pico.unigram(), pico.byte_fallback()):
        forms = vocabulary_of(tokenizer).forms
        texts = ["" if form.is_byte else form.text.strip() for form in forms]
        assert np.array_equal(subwords_from_ngrams(tokenizer, vectors).matrix, vectors.lookup(texts))


def test_a_normaliser_changes_only_the_tokens_it_has_a_part_in():
    vectors = vectors_of()
    tokens = ["Herr", "und", "fahr", "ber", "uber"]
    cased = normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents()])
    found, plain = token_vectors(tokens, vectors, cased), vectors.lookup(tokens)
    assert np.array_equal(found[:3], plain[:3])
    assert not np.allclose(found[4], plain[4])
    assert np.allclose(found[4], vectors.lookup(["über"])[0], atol=1e-6)


@pytest.mark.parametrize("minimum", [1, 2, 3])
def test_white_space_and_parts_of_characters_have_no_vector(minimum):
    vectors = vectors_of(minimum)
    assert not vectors.lookup([""]).any()
    for tokenizer in (pico.byte_level(), pico.byte_fallback()):
        found = subwords_from_ngrams(tokenizer, vectors)
        empty = [form.is_byte or not form.text.strip() for form in found.vocabulary.forms]
        assert any(empty)
        assert not found.covered[empty].any()
