from __future__ import annotations

from itertools import pairwise

import numpy as np
from gensim.models.fasttext import ft_ngram_hashes
from hypothesis import given, settings
from hypothesis import strategies as st

from relexify.evidence.vectors import Ngrams, ngram_buckets
from relexify.evidence.vectors import ngrams as module

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


def loop(word: str, minimum: int, maximum: int, buckets: int) -> list[int]:
    """fastText's enumeration and hash, character by character."""
    characters, found = f"<{word}>", []
    for start in range(len(characters)):
        for end in range(start + 1, min(start + maximum, len(characters)) + 1):
            if end - start < minimum or (end - start == 1 and (start == 0 or end == len(characters))):
                continue
            value = 2166136261
            for byte in characters[start:end].encode():
                value = ((value ^ (byte if byte < 128 else byte + 0xFFFFFF00)) * 16777619) & 0xFFFFFFFF
            found.append(value % buckets)
    return found


def by_word(words: list[str], minimum: int, maximum: int, buckets: int) -> list[list[int]]:
    indptr, ids = ngram_buckets(words, minimum, maximum, buckets)
    return [ids[start:end].tolist() for start, end in pairwise(indptr)]


@settings(max_examples=200, deadline=None)
@given(st.lists(texts, max_size=6), st.integers(0, 4), st.integers(0, 7), st.sampled_from([1, 7, 2_000_000]))
def test_vectorised_buckets_equal_the_plain_loop(words: list[str], minimum: int, maximum: int, buckets: int) -> None:
    assert by_word(words, minimum, maximum, buckets) == [loop(word, minimum, maximum, buckets) for word in words]


@settings(max_examples=100, deadline=None)
@given(st.lists(texts, min_size=1, max_size=6))
def test_vectorised_buckets_equal_gensims(words: list[str]) -> None:
    assert by_word(words, 3, 6, 2_000_000) == [list(ft_ngram_hashes(word, 3, 6, 2_000_000)) for word in words]


def test_a_lone_surrogate_does_not_crash_the_hashing() -> None:
    assert [len(found) for found in by_word(["a\ud800b", "ab"], 3, 3, 100)] == [3, 2]


def test_no_words_and_no_buckets_give_no_ngrams() -> None:
    assert by_word([], 3, 6, 100) == []
    assert by_word(["word"], 3, 6, 0) == [[]]


@settings(max_examples=50, deadline=None)
@given(st.lists(texts, max_size=8), st.sets(st.integers(0, 29)))
def test_unknown_buckets_are_left_out(words: list[str], known: set[int]) -> None:
    rows = np.array(sorted(known), np.int64)
    positions, found = Ngrams(np.zeros((len(rows), 2)), 2, 4, 30, rows).rows_of(words)
    expected = [(i, b) for i, w in enumerate(words) for b in loop(w, 2, 4, 30) if w not in ("", "</s>") and b in known]
    assert list(zip(positions.tolist(), rows[found].tolist(), strict=True)) == expected


def test_blocks_of_words_join_without_a_seam(monkeypatch) -> None:
    words = [f"word{number}" for number in range(50)]
    ngrams = Ngrams(np.zeros((1000, 2)), 3, 6, 1000)
    whole = ngrams.rows_of(words)
    monkeypatch.setattr(module, "_CHARACTERS_AT_ONCE", 10)
    for one, other in zip(whole, ngrams.rows_of(words), strict=True):
        np.testing.assert_array_equal(one, other)
