from __future__ import annotations

import bz2
import gzip
import logging
import lzma
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import zstandard
from gensim.models import KeyedVectors
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from relexify.errors import InputError
from relexify.evidence.vectors.formats import word2vec as text_formats
from relexify.evidence.vectors.formats.loading import load_vectors
from relexify.evidence.vectors.formats.word2vec import read_text_vectors, read_word2vec_binary
from tests.memory import peak_memory_below

MATRIX = np.array([[0.5, -1.25], [3e-4, 7], [1, 0]], np.float32)
LINES = "das 0.5 -1.25\nhäuser 3e-4 7 \n家 1 0\n"


def write(tmp_path: Path, content: str | bytes, name: str = "vectors.vec") -> Path:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize("header", ["3 2\n", "", "3 2 \r\n"])
def test_text_is_read_with_and_without_a_header(tmp_path: Path, header: str) -> None:
    vectors = load_vectors(write(tmp_path, header + LINES))
    assert vectors.words == ["das", "häuser", "家"]
    assert vectors.counts is None
    assert vectors.ngrams is None
    np.testing.assert_array_equal(vectors.matrix, MATRIX)


@pytest.mark.parametrize("compress", [gzip.compress, lzma.compress, bz2.compress, zstandard.compress])
def test_compressed_text_is_read_under_any_name(tmp_path: Path, compress: Callable[[bytes], bytes]) -> None:
    path = write(tmp_path, compress(("3 2\n" + LINES).encode()), "vectors.txt")
    np.testing.assert_array_equal(load_vectors(path).matrix, MATRIX)


@pytest.mark.parametrize("content", [b"a" * (1 << 26), b"1000000 2\n" + b"a " * (1 << 25)])
def test_a_bomb_takes_bounded_memory(tmp_path: Path, content: bytes) -> None:
    path = write(tmp_path, gzip.compress(content, 1), "bomb.vec.gz")
    with peak_memory_below(1 << 25), pytest.raises(InputError, match=r"line \d, has more than 1,048,576 bytes"):
        load_vectors(path)


@pytest.mark.parametrize("width", [10**12, 1 << 20])
def test_an_announced_width_takes_no_memory(tmp_path: Path, width: int) -> None:
    path = write(tmp_path, f"2 {width}\na ".encode() + b"\0" * 100)
    with peak_memory_below(1 << 26), pytest.raises(InputError, match="damaged"):
        load_vectors(path)


def test_blocks_of_lines_join_without_a_seam(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(text_formats, "_LINES_AT_ONCE", 2)
    path = write(tmp_path, "3 2\n" + LINES + "\n\n")
    np.testing.assert_array_equal(read_text_vectors(path).matrix, MATRIX)


def test_words_with_spaces_are_cut_from_the_right(tmp_path: Path) -> None:
    content = "4 2\nNew York 1 2\n\u00a0 3 4\n. . . 5 6\nat 24 7 8\n"
    assert read_text_vectors(write(tmp_path, content)).words == ["New York", "\u00a0", ". . .", "at 24"]


def test_the_first_of_equal_words_wins_and_the_log_says_so_once(tmp_path: Path, caplog) -> None:
    with caplog.at_level(logging.WARNING):
        vectors = read_text_vectors(write(tmp_path, "4 1\na 1\nb 2\na 3\na 4\n"))
    assert vectors.words == ["a", "b"]
    np.testing.assert_array_equal(vectors.matrix, [[1], [2]])
    assert "repeats words in 2 rows: the first row of each is kept" in caplog.text
    assert len(caplog.records) == 1


def test_a_limit_stops_early_and_never_reads_the_rest(tmp_path: Path) -> None:
    path = write(tmp_path, "3 2\ndas 1 2\nhaus 3 4\nbroken line here\n")
    assert read_text_vectors(path, limit=2).words == ["das", "haus"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("10 2\n" + LINES, "announces 10 words in its first line, but has 3"),
        ("2 2\n" + LINES, "announces 2 words in its first line, but has 3"),
        ("999999999999999 2\n" + LINES, "announces 999999999999999 words in its first line, but has 3"),
        ("3 2\na 1 2\nb 1\nc 1 2\n", "line 3: 1 numbers, but 2 are expected"),
        ("3 2\na 1 2\nb 1 2\nc 1.0 2 3\n", "line 4: 3 numbers, but 2 are expected"),
        ("3 2\na 1 2\n\nc 1 2\n", "line 3: 0 numbers, but 2 are expected"),
        ("a 1 2\nb 1 two\n", "line 2: 'two' is not a number"),
        ("3 2\na 1 2\nb nan 2\nc 1 2\n", "line 3: the vector of 'b' holds NaN or infinity"),
        ("3 2\na 1 2\nb 1 2\nc 1 -inf\n", "line 4: the vector of 'c' holds NaN or infinity"),
        (b"2 1\na 1\ncaf\xe9 2\n", r"line 3: the word b'caf\\xe9' is not UTF-8"),
        ("word\n", "line 1: no numbers follow the word"),
        (LINES.encode("utf-16"), "is UTF-16LE, not UTF-8"),
        ("0 5\n", "holds no vectors"),
        ("3 0\na\n", "line 1: no numbers follow"),
        (gzip.compress(b"3 2\n" + LINES.encode(), mtime=0)[:-12], "cannot be read"),
    ],
)
def test_broken_text_names_the_file_and_the_line(tmp_path: Path, content: str | bytes, message: str) -> None:
    path = write(tmp_path, content)
    with pytest.raises(InputError, match=message) as caught:
        load_vectors(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("binary", [False, True])
def test_what_gensim_writes_is_read(tmp_path: Path, binary: bool) -> None:
    theirs = KeyedVectors(vector_size=7)
    words = ["das", "häuser", "家", "x"]
    theirs.add_vectors(words, np.random.default_rng(0).standard_normal((4, 7), np.float32))
    path = tmp_path / "vectors.txt"
    theirs.save_word2vec_format(str(path), binary=binary)
    ours = load_vectors(path)
    assert ours.words == words
    np.testing.assert_allclose(ours.matrix, theirs.vectors, rtol=1e-6)
    assert load_vectors(path, limit=2).words == words[:2]


def test_word2vec_binary_may_break_lines_before_words(tmp_path: Path) -> None:
    path = write(tmp_path, b"2 2\na " + MATRIX[0].tobytes() + b"\nb " + MATRIX[1].tobytes() + b"\n")
    vectors = load_vectors(path)
    assert vectors.words == ["a", "b"]
    np.testing.assert_array_equal(vectors.matrix, MATRIX[:2])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"2 2\na " + MATRIX[0].tobytes() + b"b 123", "cut short or damaged at word 2 of 2 announced words"),
        (b"2 2\na " + MATRIX[0].tobytes(), "cut short or damaged at word 2 of 2 announced words"),
        (b"2 1\na \0\0\0\0b \0\0\xc0\x7f", "word 2: the vector of 'b' holds NaN or infinity"),
        (b"1 1\n\xff\xfe \0\0\0\0", r"word 1: the word b'\\xff\\xfe' is not UTF-8"),
    ],
)
def test_broken_word2vec_binary_names_the_word(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_vectors(write(tmp_path, content))


def test_word2vec_binary_without_a_header_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not start with 'count width'"):
        read_word2vec_binary(write(tmp_path, b"a 1.0\n"))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=80), st.sampled_from([b"", b"2 2\n", b"\x1f\x8b\x08"]))
def test_any_bytes_are_vectors_or_an_input_error(tmp_path: Path, content: bytes, start: bytes) -> None:
    path = write(tmp_path, start + content)
    with suppress(InputError):
        assert np.isfinite(load_vectors(path).matrix).all()
