from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relexify.errors import InputError
from relexify.evidence.vectors import Ngrams, WordVectors, mapped_rows, ngram_buckets, word_vectors
from relexify.progress import report_to

GENERATOR = np.random.default_rng(5)
WORDS = ["</s>", "haus", "häuser", "家", "haus"]
MATRIX = GENERATOR.standard_normal((5, 4), np.float32)
NGRAMS = Ngrams(GENERATOR.standard_normal((40, 4), np.float32), 2, 4, 40)
VECTORS = WordVectors(WORDS, MATRIX, np.array([9, 7, 5, 3, 1]), NGRAMS)


def mean(word: str, vectors: WordVectors = VECTORS) -> np.ndarray:
    """fastText's definition, word by word; an empty text has no n-grams."""
    rows = [vectors.matrix[vectors.words.index(word)]] if word in vectors.words else []
    ngrams = vectors.ngrams
    if ngrams is not None and word not in ("", "</s>"):
        known = list(range(ngrams.buckets)) if ngrams.known is None else ngrams.known.tolist()
        ids = ngram_buckets([word], ngrams.minimum, ngrams.maximum, ngrams.buckets)[1].tolist()
        rows += [ngrams.matrix[known.index(bucket)] for bucket in ids if bucket in known]
    return np.mean(rows, axis=0) if rows else np.zeros(vectors.matrix.shape[1])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(st.sampled_from(WORDS), st.text(max_size=8)), max_size=10))
def test_lookup_is_the_mean_of_own_row_and_ngram_rows(words: list[str]) -> None:
    found = VECTORS.lookup(words)
    assert found.dtype == np.float32
    assert found.shape == (len(words), 4)
    for word, vector in zip(words, found, strict=True):
        np.testing.assert_allclose(vector, mean(word), atol=1e-6)


def test_end_of_sentence_has_its_own_row_and_no_ngrams() -> None:
    np.testing.assert_array_equal(VECTORS.lookup(["</s>"])[0], MATRIX[0])
    assert not WordVectors(["a"], MATRIX[:1], None, NGRAMS).lookup(["</s>"]).any()


def test_unknown_buckets_neither_add_nor_count() -> None:
    known = np.array([1, 4, 5, 6, 7, 20, 21, 39])
    vectors = WordVectors(WORDS, MATRIX, None, Ngrams(NGRAMS.matrix[known], 2, 4, 40, known))
    for word in ["haus", "haustür", "x", "ganz anders"]:
        np.testing.assert_allclose(vectors.lookup([word])[0], mean(word, vectors), atol=1e-6)


def test_without_ngrams_an_unknown_word_is_a_zero_row_and_the_first_of_equal_words_counts() -> None:
    found = WordVectors(WORDS, MATRIX).lookup(["家", "nein", "haus"])
    np.testing.assert_array_equal(found, [MATRIX[3], np.zeros(4), MATRIX[1]])


def test_a_word_too_short_for_ngrams_is_a_zero_row() -> None:
    assert not WordVectors(["a"], MATRIX[:1], None, Ngrams(NGRAMS.matrix, 5, 5, 40)).lookup(["", "b"]).any()


def test_blocks_give_what_one_lookup_gives(monkeypatch) -> None:
    words = [f"{word}{number}" for number in range(20) for word in WORDS] + WORDS
    whole = VECTORS.lookup(words)
    monkeypatch.setattr(word_vectors, "_WORDS_AT_ONCE", 7)
    monkeypatch.setattr(mapped_rows, "_TERMS_AT_ONCE", 11)
    monkeypatch.setattr(mapped_rows, "_ROWS_AT_ONCE", 2)
    monkeypatch.setattr(mapped_rows, "_BYTES_AT_ONCE", 40)
    np.testing.assert_allclose(VECTORS.lookup(words), whole, atol=1e-6)


def test_rotations_compose_and_apply_to_row_vectors() -> None:
    first, second = GENERATOR.standard_normal((4, 4)), GENERATOR.standard_normal((4, 3))
    twice = VECTORS.rotated(SimpleNamespace(matrix=first)).rotated(second)
    assert twice.width == 3
    assert twice.matrix is VECTORS.matrix
    np.testing.assert_allclose(
        twice.lookup(["haus", "neu"]), VECTORS.lookup(["haus", "neu"]) @ first @ second, atol=1e-5
    )


def test_a_rotation_of_the_wrong_shape_is_rejected() -> None:
    with pytest.raises(InputError, match=r"shape \[3, 3\] does not fit vectors of width 4"):
        VECTORS.rotated(np.eye(3))


def test_most_frequent_keeps_ngrams_and_forgets_the_other_words() -> None:
    few = VECTORS.most_frequent(2)
    assert (len(few), list(few.words), few.counts.tolist()) == (2, ["</s>", "haus"], [9, 7])
    assert few.index == {"</s>": 0, "haus": 1}
    assert few.ngrams is NGRAMS


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_damaged_row_is_reported_when_it_is_looked_up(value: float) -> None:
    matrix = MATRIX.copy()
    matrix[3, 1] = value
    vectors = WordVectors(WORDS, matrix, None, NGRAMS)
    assert vectors.lookup(["haus"]).any()
    with pytest.raises(InputError, match=r"The vector of '家' in the matrix holds NaN or infinity \(1 of 2 words\)"):
        vectors.lookup(["haus", "家"])


def test_progress_hears_of_every_word() -> None:
    heard = []

    @contextmanager
    def reporter(description: str, total: int | None):
        heard.append((description, total))
        yield heard.append

    with report_to(reporter):
        VECTORS.lookup(WORDS)
    assert heard == [("looking up vectors", 5), 5]


def test_rows_of_a_mapped_file_equal_those_in_memory(tmp_path) -> None:
    rows = np.array([0, 3, 4, 30, 39])
    path = tmp_path / "matrix"
    path.write_bytes(b"odd" + NGRAMS.matrix.tobytes())
    mapped = np.memmap(path, np.float32, "r", 3, (40, 4))
    np.testing.assert_array_equal(mapped_rows.gather_rows(mapped, rows), NGRAMS.matrix[rows])
    np.testing.assert_array_equal(mapped_rows.gather_rows(mapped[10:], rows[:3]), NGRAMS.matrix[10:][rows[:3]])
    assert mapped_rows.source_of(mapped[10:]) == str(path)
