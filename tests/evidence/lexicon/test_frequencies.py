"""Word frequencies: of vectors, or from a file."""

from __future__ import annotations

import numpy as np
import pytest

from relexify.errors import InputError
from relexify.evidence.lexicon import read_frequencies, vector_frequencies
from relexify.evidence.vectors.word_vectors import WordVectors


def vectors(counts: np.ndarray | None) -> WordVectors:
    return WordVectors(words=("na", "ya", "na"), matrix=np.eye(3, dtype=np.float32), counts=counts)


def test_frequencies_are_read_from_a_file_and_must_be_numbers(tmp_path):
    file = tmp_path / "counts.tsv"
    file.write_text("# word, count\nund\t80\nin Kraft\t2.5\nHerr 9\n")
    assert read_frequencies(file) == {"und": 80.0, "in Kraft": 2.5, "Herr": 9.0}
    for text, message in (
        ("und\tviel\n", "'viel'"),
        ("und\t-1\n", "'-1'"),
        ("und\t0\n", "no word with a count above 0"),
    ):
        file.write_text(text)
        with pytest.raises(InputError, match=message):
            read_frequencies(file)


def test_counts_of_vectors_are_taken_as_they_are_and_the_first_of_equal_words_wins():
    assert vector_frequencies(vectors(np.array([9, 4, 1]))) == {"na": 9.0, "ya": 4.0}


@pytest.mark.parametrize("counts", [None, np.zeros(3, dtype=np.int64)])
def test_without_counts_the_weight_is_one_over_the_rank(counts):
    assert vector_frequencies(vectors(counts)) == {"na": 1.0, "ya": 0.5}
