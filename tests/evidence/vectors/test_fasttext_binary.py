from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from gensim.models import FastText
from gensim.models.fasttext import load_facebook_vectors, save_facebook_model
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from relexify.errors import InputError
from relexify.evidence.vectors.formats.fasttext import read_fasttext
from relexify.evidence.vectors.formats.loading import load_vectors
from tests.evidence.vectors.fasttext_file import FastTextFile

Write = Callable[..., Path]


def test_words_counts_and_rows_are_read_as_written(write_fasttext: Write) -> None:
    vectors = read_fasttext(write_fasttext())
    matrix = FastTextFile().matrix()
    assert vectors.words == ["</s>", "haus", "häuser", "家"]
    assert vectors.counts.tolist() == [300, 299, 298, 297]
    np.testing.assert_array_equal(vectors.matrix, matrix[:4])
    np.testing.assert_array_equal(vectors.ngrams.matrix, matrix[4:])
    assert (vectors.ngrams.minimum, vectors.ngrams.maximum, vectors.ngrams.buckets) == (2, 4, 50)


def test_lookup_equals_gensims_reading_of_a_gensim_model(tmp_path: Path) -> None:
    sentences = [["über", "das", "haus", "家", "gehen"], ["das", "haus", "häuser"]] * 5
    model = FastText(sentences, vector_size=8, min_count=1, bucket=100, epochs=1, workers=1)
    path = tmp_path / "model.bin"
    save_facebook_model(model, str(path))
    theirs, ours = load_facebook_vectors(str(path)), load_vectors(path)
    assert ours.words == theirs.index_to_key
    for word in [*ours.words, "haustür", "日本語", "überall"]:
        np.testing.assert_allclose(ours.lookup([word])[0], theirs[word], atol=1e-7)


def test_labels_take_no_row_and_are_no_words(write_fasttext: Write) -> None:
    vectors = read_fasttext(write_fasttext(labels=[b"__label__a"]))
    assert "__label__a" not in vectors.index
    np.testing.assert_array_equal(vectors.ngrams.matrix, FastTextFile().matrix()[4:])


@pytest.mark.parametrize("fields", [{"maximum": 0}, {"version": 11, "model": 3}, {"pruned": 0}, {"buckets": 0}])
def test_models_that_use_no_ngrams_have_none(write_fasttext: Write, fields: dict[str, int]) -> None:
    vectors = read_fasttext(write_fasttext(**fields))
    assert vectors.ngrams is None
    np.testing.assert_array_equal(vectors.lookup(["haus", "hausen"])[1], np.zeros(5))


def test_words_that_are_not_utf8_neither_collide_nor_hide_others(write_fasttext: Write) -> None:
    vectors = read_fasttext(write_fasttext(words=[b"caf\xe9", b"caf\xe8", "caf\ufffd".encode(), b"gut"]))
    assert len(vectors.index) == 4
    assert vectors.index["caf\ufffd"] == 2
    assert vectors.index["gut"] == 3


def test_a_damaged_row_names_the_file_when_looked_up(write_fasttext: Write) -> None:
    matrix = FastTextFile().matrix()
    matrix[1, 2] = np.nan
    vectors = read_fasttext(write_fasttext(matrix))
    with pytest.raises(InputError, match=r"'haus' in .*model\.bin holds NaN or infinity"):
        vectors.lookup(["haus"])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"magic": 7}, "does not begin like a fastText model"),
        ({"version": 13}, "has fastText format 13, but only formats 11 and 12 are supported"),
        ({"quantised": True}, r"is a quantised fastText model: use the unquantised \.bin"),
        ({"pruned": 4}, "is a quantised fastText model"),
        ({"width": -5, "columns": -5}, "gives -5 as width"),
        ({"minimum": -1}, "gives -1 as shortest n-gram"),
        ({"maximum": 2_000_000}, "gives 2000000 as longest n-gram"),
        ({"entries": 2_000_000_000}, "gives 2000000000 as number of dictionary entries"),
        ({"entries": -1}, "gives -1 as number of dictionary entries, outside 0 to"),
        ({"entries": 5}, "counts 4 words and 0 labels in 5 entries"),
        ({"rows": 53}, r"its matrix is 53 × 5, but its header has 4 words and 50 buckets of width 5"),
        ({"columns": 6}, "its matrix is 54 × 6"),
        ({"rows": 1 << 62}, "is damaged: its matrix is"),
    ],
)
def test_damage_in_the_numbers_is_reported(write_fasttext: Write, fields: dict[str, int], message: str) -> None:
    matrix = FastTextFile().matrix() if fields.get("width", 1) < 0 else None
    path = write_fasttext(matrix, **fields)
    with pytest.raises(InputError, match=message) as caught:
        read_fasttext(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("size", "message"),
    [
        (40, "inside its header"),
        (100, "gives 4 as number of dictionary entries"),
        (145, "at entry 4 of 4 of its dictionary"),
        (160, "before its matrix"),
        (400, "inside its matrix"),
    ],
)
def test_a_file_cut_short_says_where(tmp_path: Path, size: int, message: str) -> None:
    path = tmp_path / "short.bin"
    path.write_bytes(FastTextFile().content()[:size])
    with pytest.raises(InputError, match=message):
        read_fasttext(path)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_damage_is_an_input_error_or_harmless(tmp_path: Path, data: st.DataObject) -> None:
    content = bytearray(FastTextFile().content())
    for index in data.draw(st.lists(st.integers(4, 180), min_size=1, max_size=4)):
        content[index] = data.draw(st.integers(0, 255))
    path = tmp_path / "damaged.bin"
    path.write_bytes(content[: data.draw(st.integers(4, len(content)))])
    with suppress(InputError):
        read_fasttext(path).lookup(["haus", "neu"])
